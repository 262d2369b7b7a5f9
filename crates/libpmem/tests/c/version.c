/* Which versions a library says that it is, and what it says of the machine. */
#include <errno.h>
#include <libpmem.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	for (unsigned major = 0; major < 4; major++)
		for (unsigned minor = 0; minor < 4; minor++) {
			errno = 0;
			const char *no = pmem_check_version(major, minor);
			if (errno)
				printf("errno %d\n", errno);
			int kept = no != NULL && strlen(no) > 0 && strcmp(no, pmem_errormsg()) == 0;
			printf("%u.%u: %s, kept %d\n", major, minor, no ? "no" : "yes", kept);
		}
	printf("auto flush %d, hw drain %d\n", pmem_has_auto_flush(), pmem_has_hw_drain());
	return 0;
}
