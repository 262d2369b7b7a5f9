/* Loads the library, leaves lines to its Ribbon, closes it, and goes on for a while. */
#include <dlfcn.h>
#include <libpmem.h>
#include <stdio.h>
#include <unistd.h>

enum { BYTES = 1 << 16 };

int main(void)
{
	void *library = dlopen("libpmem.so.1", RTLD_NOW);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	void *(*map)(const char *, size_t, int, mode_t, size_t *, int *) =
	    dlsym(library, "pmem_map_file");
	void (*flush)(const void *, size_t) = dlsym(library, "pmem_flush");
	char *base = map(".", BYTES, PMEM_FILE_CREATE | PMEM_FILE_TMPFILE, 0, NULL, NULL);
	if (base == NULL)
		return 3;
	for (int at = 0; at < 6400; at += 64)
		flush(base + at, 1);
	dlclose(library);
	usleep(50000);
	printf("done\n");
	return 0;
}
