/* Two processes make a pool in one file. The second one comes at a moment that the first one cannot
 * choose: at a system call on the file. Prints who has the pool.
 *
 *     race MOMENT BYTES FILE
 *
 * MOMENT is `lock` or `truncate`, before the call, or `unlock`, after it; `never`
 * leaves the first process alone. The second process asks for the whole of the file that
 * is there, then opens it, keeps what it has until the first one is done, and works in it.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *moment = "";
static char **words;
static pid_t second;
static int to_second, from_second;
static char said[512];

static void start_second(void)
{
	int to[2], from[2];
	moment = "";
	if (pipe(to) || pipe(from) || (second = fork()) < 0)
		exit(3);
	if (second == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		execl(words[0], words[0], "second", words[3], NULL);
		_exit(3);
	}
	close(to[0]);
	close(from[1]);
	to_second = to[1];
	from_second = from[0];
	size_t got = 0;
	ssize_t more;
	while ((got == 0 || said[got - 1] != '\n') &&
		(more = read(from_second, said + got, sizeof(said) - 1 - got)) > 0)
		got += more;
	said[got - (got > 0)] = 0;
}

int flock(int file, int how)
{
	int is_lock = !(how & LOCK_UN);
	if (is_lock && !strcmp(moment, "lock"))
		start_second();
	int done = syscall(SYS_flock, file, how);
	if (!is_lock && !strcmp(moment, "unlock"))
		start_second();
	return done;
}

int ftruncate64(int file, off64_t bytes)
{
	if (bytes == 0 && !strcmp(moment, "truncate"))
		start_second();
	return syscall(SYS_ftruncate, file, bytes);
}

static int folders;

int fsync(int file)
{
	struct stat status;
	folders += fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
	return syscall(SYS_fsync, file);
}

/* Allocates, writes, and closes the pool. */
static int work(PMEMobjpool *pool)
{
	for (int i = 0; i < 100; i++) {
		PMEMoid oid;
		if (pmemobj_zalloc(pool, &oid, 10000, 1))
			return 1;
	}
	pmemobj_close(pool);
	return 0;
}

static int be_second(const char *file)
{
	PMEMobjpool *pool = pmemobj_create(file, "race", 0, 0600);
	char why[256] = "";
	if (pool == NULL)
		snprintf(why, sizeof(why), "%s", pmemobj_errormsg());
	if (pool == NULL)
		pool = pmemobj_open(file, "race");
	if (pool == NULL)
		printf("nothing: %s; %s\n", why, pmemobj_errormsg());
	else
		printf("pool\n");
	fflush(stdout);
	char byte;
	if (read(0, &byte, 1) != 0)
		return 3;
	return pool == NULL ? 0 : work(pool);
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return be_second(argv[2]);
	if (argc != 4)
		return 2;
	words = argv;
	moment = argv[1];
	PMEMobjpool *pool = pmemobj_create(argv[3], "race", atol(argv[2]), 0600);
	if (pool == NULL)
		printf("first: nothing: %s\n", pmemobj_errormsg());
	else
		printf("first: pool, folders written to the disk: %d\n", folders);
	moment = "";
	int status = 0;
	if (second != 0) {
		printf("second: %s\n", said);
		close(to_second);
		waitpid(second, &status, 0);
		printf("second ends: %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	if (pool != NULL && work(pool))
		return 1;
	printf("check: %d\n", pmemobj_check(argv[3], "race"));
	return 0;
}
