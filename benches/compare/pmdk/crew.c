/*
 * The time of a step is the wall time of the slowest thread, minus the time in which another
 * process had its CPU, as in src/contender.rs. If there are more threads than CPUs, they wait for
 * each other's CPU as well, which cannot be told from that: then it is the CPU time of all threads,
 * spread over the CPUs. It has the waits in which a thread yields, and not those in which it sleeps.
 */
#define _GNU_SOURCE
#include "crew.h"
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct {
	pthread_barrier_t start;
	unsigned threads;
	unsigned cpus;
	void (*work)(unsigned thread);
	struct span {
		double slow, cpu;
	} spans[CREW_THREADS_MAX][CREW_STEPS_MAX];
} crew;

struct moment {
	double wall, cpu, waited;
};

static _Thread_local unsigned self;
static _Thread_local struct moment begun;

static void
fail(const char *what)
{
	fprintf(stderr, "%s; try fewer --threads\n", what);
	exit(1);
}

static double
nanoseconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Time in which this thread was ready to run but did not; zero where the system does not say. */
static double
waited_for_cpu(void)
{
	unsigned long long ran, waited = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	fclose(file);
	return (double)waited;
}

static struct moment
moment(void)
{
	struct moment now = {
		.waited = waited_for_cpu(),
		.cpu = nanoseconds(CLOCK_THREAD_CPUTIME_ID),
		.wall = nanoseconds(CLOCK_MONOTONIC),
	};
	return now;
}

void
crew_begin(void)
{
	pthread_barrier_wait(&crew.start);
	begun = moment();
}

void
crew_end(unsigned step)
{
	double wall = nanoseconds(CLOCK_MONOTONIC) - begun.wall;
	struct moment now = moment();
	double ran = wall - (now.waited - begun.waited);
	struct span *span = &crew.spans[self][step];
	span->cpu = now.cpu - begun.cpu;
	span->slow = ran > span->cpu ? ran : span->cpu;
}

double
crew_time(unsigned step)
{
	double slowest = 0, all = 0;
	for (unsigned thread = 0; thread < crew.threads; thread++) {
		const struct span *span = &crew.spans[thread][step];
		slowest = span->slow > slowest ? span->slow : slowest;
		all += span->cpu;
	}
	return crew.threads <= crew.cpus ? slowest : all / crew.cpus;
}

/* Best effort: where a thread cannot be pinned, it runs unpinned. */
static void
pin(unsigned thread)
{
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(thread % crew.cpus, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void *
member(void *argument)
{
	self = (unsigned)(uintptr_t)argument;
	pin(self);
	crew.work(self);
	return NULL;
}

void
crew_run(unsigned threads, void (*work)(unsigned thread))
{
	pthread_t members[CREW_THREADS_MAX];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (threads == 0 || threads > CREW_THREADS_MAX)
		fail("a crew has 1 to 16 threads");
	crew.threads = threads;
	crew.cpus = cpus > 0 ? (unsigned)cpus : 1;
	crew.work = work;
	pthread_barrier_init(&crew.start, NULL, threads);
	for (uintptr_t thread = 0; thread < threads; thread++)
		if (pthread_create(&members[thread], NULL, member, (void *)thread) != 0)
			fail("cannot start a thread");
	for (unsigned thread = 0; thread < threads; thread++)
		pthread_join(members[thread], NULL);
	pthread_barrier_destroy(&crew.start);
}
