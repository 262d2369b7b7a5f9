/* Calls of pmem_map_file, good and bad: what each returns, and what it leaves on the disk. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int entries(const char *path)
{
	int count = 0;
	DIR *folder = opendir(path);
	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

static void show(const char *what, void *base, int error, size_t len, int is_pmem, const char *path)
{
	struct stat status;
	int there = stat(path, &status) == 0;
	printf("%s: %s, len %zu, is_pmem %d", what, base ? "ok" : strerrorname_np(error), len, is_pmem);
	if (there && S_ISREG(status.st_mode))
		printf(", size %ld, whole %d", (long)status.st_size,
			(long)status.st_blocks * 512 >= (long)status.st_size);
	if (there)
		printf(", mode %o", (unsigned)status.st_mode);
	printf(", message %d\n", base == NULL && strlen(pmem_errormsg()) > 0);
}

static void *map(const char *what, const char *path, size_t len, int flags, mode_t mode)
{
	size_t mapped = 12345;
	int is_pmem = 77;
	int open_before = entries("/proc/self/fd");
	errno = 0;
	void *base = pmem_map_file(path, len, flags, mode, &mapped, &is_pmem);
	int error = errno;
	show(what, base, error, mapped, is_pmem, path);
	if (entries("/proc/self/fd") != open_before)
		printf("%s: leaves a descriptor\n", what);
	if (base && (((size_t)base) & ((2 << 20) - 1)))
		printf("%s: not aligned\n", what);
	return base;
}

#define C PMEM_FILE_CREATE
#define E PMEM_FILE_EXCL
#define S PMEM_FILE_SPARSE
#define T PMEM_FILE_TMPFILE

static void flags_and_lengths(void)
{
	map("missing", "no", 0, 0, 0);
	map("missing, len", "no", 4096, 0, 0);
	map("create, no len", "z", 0, C, 0666);
	map("create", "f", 4 * 4096, C, 0666);
	map("create, odd len", "odd", 5000, C, 0640);
	map("create, one byte", "one", 1, C, 0666);
	map("open one byte", "one", 0, 0, 0);
	map("open", "f", 0, 0, 0);
	map("open, shorter", "f", 4096, 0, 0);
	map("open, longer", "f", 40960, 0, 0);
	for (int flags = 0; flags < 16; flags++) {
		char what[64];
		for (size_t len = 0; len <= 4096; len += 4096) {
			snprintf(what, sizeof(what), "flags %d, len %zu", flags, len);
			map(what, flags & T ? "." : "f", len, flags, 0600);
		}
	}
	map("unknown flag", "f", 4096, 16, 0666);
	map("unknown flag, create", "f", 4096, 17, 0666);
	map("all flags", "f", 4096, -1, 0666);
	map("len -1", "h", -1UL, C, 0666);
	map("len -1, sparse", "h", -1UL, C | S, 0666);
	map("len 1 << 63", "h", 1UL << 63, C, 0666);
	map("len 1 << 63, temporary", ".", 1UL << 63, C | T, 0666);
}

static void sizes(void)
{
	map("exclusive, new", "g", 4096, C | E, 0600);
	map("exclusive, there", "g", 4096, C | E, 0600);
	map("longer", "g", 8192, C, 0666);
	map("shorter", "g", 4096, C, 0666);
	map("sparse", "s", 1 << 20, C | S, 0666);
	map("sparse, longer", "s", 1 << 21, C | S, 0666);
	map("sparse, shorter", "s", 1 << 20, C | S, 0666);
	map("allocate holes", "s", 1 << 20, C, 0666);
	map("sparse, exclusive", "s2", 1 << 20, C | S | E, 0666);
	map("huge pages", "huge", 3 << 21, C, 0600);
	close(open("empty", O_CREAT | O_RDWR, 0644));
	map("open empty", "empty", 0, 0, 0);
}

static void kinds(void)
{
	mkdir("d", 0755);
	int before = entries("d");
	map("folder", "d", 0, 0, 0);
	map("folder, create", "d", 4096, C, 0666);
	map("temporary", "d", 8192, C | T, 0666);
	map("temporary, exclusive", "d", 8192, C | T | E, 0666);
	map("temporary, sparse", "d", 8192, C | T | S, 0666);
	map("temporary, in a file", "f", 8192, C | T, 0666);
	map("temporary, nowhere", "nowhere", 8192, C | T, 0666);
	printf("%d files left\n", entries("d") - before);
	map("in no folder", "x/y", 4096, C, 0666);
	map("in a file", "f/y", 4096, C, 0666);
	map("null device", "/dev/null", 0, 0, 0);
	map("null device, create", "/dev/null", 4096, C, 0);
	map("zero device, sparse", "/dev/zero", 4096, C | S, 0);
	mkfifo("fifo", 0600);
	map("fifo", "fifo", 0, 0, 0);
	map("no name", "", 0, 0, 0);
	if (symlink("f", "link") || symlink("later", "dangling"))
		exit(3);
	map("link", "link", 0, 0, 0);
	map("dangling link, exclusive", "dangling", 4096, C | E, 0644);
	map("dangling link", "dangling", 4096, C, 0644);
	char name[301];
	memset(name, 'x', 300);
	name[300] = 0;
	map("long name", name, 0, 0, 0);
	map("long name, create", name, 4096, C, 0600);
}

static void modes(void)
{
	const mode_t all[] = {0, 0400, 0600, 0666, 0777, 04777, 01644};
	char name[32];
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(name, sizeof(name), "mode%o", (unsigned)all[i]);
		map(name, name, 4096, C, all[i]);
		map(name, name, 0, 0, 0);
	}
	chmod("f", 0400);
	map("read-only", "f", 0, 0, 0);
	map("read-only, create", "f", 4096, C, 0600);
	chmod("f", 0600);
	/* Larger than any disk; what is left of the file differs, and is not shown. */
	errno = 0;
	void *base = pmem_map_file("big", 1UL << 50, C, 0600, NULL, NULL);
	printf("big: %d %s\n", base != NULL, strerrorname_np(errno));
	errno = 0;
	unlink("big");
}

static void contents(void)
{
	size_t len;
	char byte;
	int file = open("text", O_CREAT | O_RDWR, 0600);
	if (pwrite(file, "precious", 8, 0) != 8)
		exit(3);
	char *base = pmem_map_file("text", 10000, C, 0600, &len, NULL);
	printf("content: %.8s %d %d\n", base, base[8], base[9999]);
	base[7000] = 'x';
	printf("msync %d\n", pmem_msync(base, len));
	if (pread(file, &byte, 1, 7000) != 1)
		exit(3);
	printf("in the file: %c\n", byte);
	errno = 0;
	printf("unmap nothing: %d", pmem_unmap(base, 0));
	printf(" %d\n", errno);
	errno = 0;
	printf("unmap odd: %d", pmem_unmap(base + 1, 4096));
	printf(" %d\n", errno);
	printf("unmap the first page: %d\n", pmem_unmap(base, 4096));
	printf("the second is there: %c\n", base[7000]);
	errno = 0;
	printf("the first is not: %d", pmem_msync(base, 1));
	printf(" %d\n", errno);
	printf("unmap the rest: %d\n", pmem_unmap(base + 4096, len - 4096));
	errno = 0;
	printf("nor is the second: %d", pmem_msync(base + 7000, 1));
	printf(" %d\n", errno);
	printf("unmap again: %d\n", pmem_unmap(base, len));
	/* No answers asked for. */
	printf("nulls: %d\n", pmem_map_file("text", 0, 0, 0, NULL, NULL) != NULL);
	close(file);
}

int main(int count, char **arguments)
{
	if (count != 2 || chdir(arguments[1]))
		return 3;
	umask(022);
	flags_and_lengths();
	sizes();
	kinds();
	modes();
	contents();
	return 0;
}
