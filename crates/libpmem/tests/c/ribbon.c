/* Flushes that a Ribbon may leave to other threads. Each case says the same without one. */
#include <libpmem.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, BYTES = 1 << 20, LINES = BYTES / LINE };

static char *map(void)
{
	char *base = pmem_map_file(".", BYTES, PMEM_FILE_CREATE | PMEM_FILE_TMPFILE, 0, NULL, NULL);
	if (base == NULL) {
		fprintf(stderr, "%s\n", pmem_errormsg());
		exit(2);
	}
	return base;
}

/* Stores to the lines, and flushes each. */
static void flush_lines(char *base, int first, int count)
{
	for (int line = first; line < first + count; line++) {
		base[line * LINE] = (char)line;
		pmem_flush(base + line * LINE, 1);
	}
}

/* 1024 lines at a time, with time for flushers between flush and drain. */
static void plain(void)
{
	char *base = map();
	for (int round = 0; round < 4; round++) {
		flush_lines(base, 1024 * round, 1024);
		usleep(30000);
		pmem_drain();
	}
	pmem_memset_persist(base, 7, 16 * LINE - 1);
	pmem_memcpy_nodrain(base + 4096, base, 3 * LINE);
	pmem_drain();
}

/* What no flusher may touch: a variable, and pages that the program has mapped by itself. */
static void others(void)
{
	static char variable[10 * LINE] __attribute__((aligned(LINE)));
	char *base = map();
	char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	flush_lines(variable, 0, 10);
	flush_lines(own, 0, LINES);
	munmap(own, BYTES);
	pmem_drain();
	flush_lines(base, 0, 5);
	pmem_drain();
}

/* Nothing of it is drained. */
static void left(void)
{
	flush_lines(map(), 0, 5);
}

static pthread_barrier_t flushed, unmapped;

static void *flush_and_drain_later(void *base)
{
	flush_lines(base, 0, 60);
	flush_lines(base, LINES - 5, 5);
	pthread_barrier_wait(&flushed);
	pthread_barrier_wait(&unmapped);
	pmem_drain();
	return NULL;
}

/* A mapping goes while another thread has flushed its lines, and not drained. */
static void unmapping(int by_itself)
{
	pthread_barrier_init(&flushed, NULL, 2);
	pthread_barrier_init(&unmapped, NULL, 2);
	for (int round = 0; round < 200; round++) {
		pthread_t thread;
		char *base = map();
		pthread_create(&thread, NULL, flush_and_drain_later, base);
		pthread_barrier_wait(&flushed);
		if ((by_itself ? munmap : pmem_unmap)(base, BYTES) != 0)
			exit(3);
		pthread_barrier_wait(&unmapped);
		pthread_join(thread, NULL);
	}
}

static char *shared;

static void *persist_own(void *number)
{
	char *own = shared + (size_t)number * 256 * LINE;
	for (int round = 0; round < 50; round++) {
		flush_lines(own, round, 100);
		pmem_drain();
		pmem_persist(own, 16 * LINE);
		flush_lines(own, 200, 3);
	}
	return NULL;
}

/* The last three lines of each thread are not drained by it. */
static void threads(size_t count)
{
	pthread_t all[64];
	shared = map();
	for (size_t number = 0; number < count; number++)
		pthread_create(&all[number], NULL, persist_own, (void *)number);
	for (size_t number = 0; number < count; number++)
		pthread_join(all[number], NULL);
}

static volatile int ends;

static void *until_the_end(void *base)
{
	while (!ends) {
		flush_lines(base, 512, 50);
		pmem_drain();
	}
	return NULL;
}

static void *maps_until_the_end(void *nothing)
{
	while (!ends)
		pmem_unmap(map(), BYTES);
	return nothing;
}

/* Children that flush, drain, map and unmap, of a process with lines that wait, and with a
 * thread that maps and unmaps. */
static void forks(void)
{
	pthread_t other, third;
	char *base = map();
	pthread_create(&other, NULL, until_the_end, base);
	pthread_create(&third, NULL, maps_until_the_end, NULL);
	for (int round = 0; round < 100; round++) {
		flush_lines(base, 0, 37);
		pid_t child = fork();
		if (child == 0) {
			alarm(60);
			pmem_drain();
			flush_lines(base, 100, 100);
			pmem_drain();
			pmem_persist(map(), BYTES);
			exit(pmem_unmap(base, BYTES) == 0 ? 0 : 1);
		}
		int status;
		waitpid(child, &status, 0);
		if (status != 0) {
			printf("child %d: %x\n", round, status);
			exit(3);
		}
		pmem_drain();
	}
	ends = 1;
	pthread_join(other, NULL);
	pthread_join(third, NULL);
}

static char *of_handler;
static volatile int handled;

static void on_alarm(int signal)
{
	(void)signal;
	flush_lines(of_handler, 1000, 20);
	pmem_drain();
	handled++;
}

/* A handler that interrupts the calls, and calls them. */
static void signals(void)
{
	struct itimerval often = {{0, 200}, {0, 200}};
	char *base = of_handler = map();
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 300) {
		flush_lines(base, 0, 20);
		pmem_drain();
	}
}

int main(int count, char **arguments)
{
	const char *name = count < 2 ? "" : arguments[1];
	if (strcmp(name, "plain") == 0)
		plain();
	else if (strcmp(name, "others") == 0)
		others();
	else if (strcmp(name, "left") == 0)
		left();
	else if (strcmp(name, "unmap") == 0)
		unmapping(0);
	else if (strcmp(name, "munmap") == 0)
		unmapping(1);
	else if (strcmp(name, "threads") == 0)
		threads(count < 3 ? 1 : atoi(arguments[2]));
	else if (strcmp(name, "forks") == 0)
		forks();
	else if (strcmp(name, "signals") == 0)
		signals();
	else
		return 4;
	printf("done\n");
	return 0;
}
