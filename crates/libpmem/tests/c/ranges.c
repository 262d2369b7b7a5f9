/* Which ranges are persistent memory, and what syncing and deep flushes of ranges answer. */
#include <errno.h>
#include <libpmem.h>
#include <stdio.h>
#include <string.h>

static char in_the_program[10000];

static void show(const char *what, int answer, int error)
{
	printf("%s %d %d\n", what, answer, answer ? error : 0);
}

#define CALL(call) (errno = 0, answer = (call), show(#call, answer, errno))

int main(int count, char **arguments)
{
	size_t len;
	int is_pmem, answer;
	char *base = pmem_map_file(".", 5000, PMEM_FILE_CREATE | PMEM_FILE_TMPFILE, 0, &len, &is_pmem);
	if (base == NULL) {
		fprintf(stderr, "%s\n", pmem_errormsg());
		return 2;
	}
	if (count == 2 && strcmp(arguments[1], "hint") == 0) {
		printf("%p\n", (void *)base);
		return 0;
	}
	if (count == 2 && strcmp(arguments[1], "lost") == 0) {
		pmem_persist((void *)(1UL << 40), 64);
		return 0;
	}
	printf("is_pmem %d, len %zu\n", is_pmem, len);
	printf("whole %d\n", pmem_is_pmem(base, len));
	printf("to the end of the page %d\n", pmem_is_pmem(base, 8192));
	printf("one byte %d\n", pmem_is_pmem(base + 4999, 1));
	printf("none %d\n", pmem_is_pmem(base, 0));
	printf("behind %d\n", pmem_is_pmem(base + 8192, 1));
	printf("over the end %d\n", pmem_is_pmem(base, 1 << 30));
	printf("elsewhere %d\n", pmem_is_pmem(in_the_program, 1));
	CALL(pmem_msync(base, 5000));
	CALL(pmem_msync(base + 77, 5));
	CALL(pmem_msync(base + 77, 0));
	CALL(pmem_msync((void *)(1UL << 40), 4096));
	CALL(pmem_deep_drain(base, 0));
	CALL(pmem_deep_drain(base, 64));
	CALL(pmem_deep_drain(base + 4090, 100));
	CALL(pmem_deep_drain((void *)(1UL << 40), 64));
	CALL(pmem_deep_drain(in_the_program, 64));
	CALL(pmem_deep_persist(base, 5000));
	CALL(pmem_deep_persist(in_the_program, 0));
	pmem_deep_flush(base, 5000);
	pmem_flush(base, 5000);
	pmem_persist(base + 1, 4999);
	pmem_drain();
	printf("after a part was unmapped\n");
	CALL(pmem_unmap(base, 4096));
	printf("first page %d, second %d\n", pmem_is_pmem(base, 1), pmem_is_pmem(base + 4096, 1));
	CALL(pmem_unmap(base + 4096, 1));
	printf("second page %d\n", pmem_is_pmem(base + 4096, 1));
	return 0;
}
