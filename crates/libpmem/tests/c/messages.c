/* What pmem_errormsg gives to several threads. */
#include <errno.h>
#include <libpmem.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char page[4096] __attribute__((aligned(4096)));

static void *fail(void *path)
{
	char kept[9000];
	printf("at first: %zu\n", strlen(pmem_errormsg()));
	for (int round = 0; round < 100; round++) {
		errno = 0;
		if (pmem_map_file(path, 0, 0, 0, NULL, NULL) || errno != ENOENT)
			return "no ENOENT";
		if (strstr(pmem_errormsg(), path) == NULL)
			return "the message does not name the path";
	}
	snprintf(kept, sizeof(kept), "%s", pmem_errormsg());
	if (pmem_msync(page, 1) != 0)
		return "memory of the program cannot be synced";
	return strcmp(kept, pmem_errormsg()) ? "a success changes the message" : NULL;
}

int main(int count, char **arguments)
{
	(void)arguments;
	char *paths[] = {"/none/one", "/none/two", "/none/three"};
	pthread_t threads[3];
	const char *message = pmem_errormsg();
	for (int i = 0; i < 3; i++) {
		void *answer = NULL;
		pthread_create(&threads[i], NULL, fail, paths[i]);
		/* One after another: what they print is compared. */
		pthread_join(threads[i], &answer);
		printf("%s\n", answer ? (char *)answer : "right");
	}
	printf("here: %zu\n", strlen(message));
	pmem_map_file("/none/\xc3\xa4", 0, 0, 0, NULL, NULL);
	printf("at one place: %d\n", message == pmem_errormsg());
	if (count > 1)
		printf("%s\n", message);
	return 0;
}
