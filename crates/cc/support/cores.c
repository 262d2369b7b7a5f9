/* What a program asks about the machine: how many cores there are, which of them it is on, and
 * random numbers, which are the same in every run. */
#include "support.h"

#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/types.h>
#include <unistd.h>

long sysconf(int name)
{
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)
        return (long)sw_cores();
    return HOST(REAL(sysconf)(name));
}

int get_nprocs(void)
{
    return (int)sw_cores();
}
int get_nprocs_conf(void) ALIAS(get_nprocs);

int sched_yield(void)
{
    sw_yield();
    return 0;
}
int pthread_yield(void) ALIAS(sched_yield);

/* Each thread has a core of its own, with its number. */
int sched_getcpu(void)
{
    return (int)sw_thread_self();
}

int getcpu(unsigned *cpu, unsigned *node)
{
    if (cpu != NULL)
        *cpu = (unsigned)sw_thread_self();
    if (node != NULL)
        *node = 0;
    return 0;
}

/* The first thread has the number of the process, as on Linux. */
pid_t gettid(void)
{
    return getpid() + (pid_t)sw_thread_self();
}

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set)
{
    (void)process;
    memset(set, 0, bytes);
    for (uint64_t core = 0; core < sw_cores() && core < 8 * bytes; core++)
        ((unsigned char *)set)[core / 8] |= (unsigned char)(1 << core % 8);
    return 0;
}

int sched_setaffinity(pid_t process, size_t bytes, const cpu_set_t *set)
{
    (void)process, (void)bytes, (void)set;
    return 0;
}

int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set)
{
    (void)thread;
    return sched_getaffinity(0, bytes, set);
}

int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set)
{
    (void)thread;
    return sched_setaffinity(0, bytes, set);
}

/* ---- random numbers ---- */

static volatile uint64_t random_state = 0x5ea3a11;

/* The next number of a sequence (splitmix64). */
static uint64_t next_random(void)
{
    const uint64_t step = 0x9e3779b97f4a7c15ul;
    uint64_t z = __atomic_add_fetch(&random_state, step, __ATOMIC_RELAXED);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    return z ^ (z >> 31);
}

ssize_t getrandom(void *buffer, size_t bytes, unsigned flags)
{
    (void)flags;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t value = next_random();
        memcpy((char *)buffer + at, &value, bytes - at < 8 ? bytes - at : 8);
    }
    return (ssize_t)bytes;
}

int getentropy(void *buffer, size_t bytes)
{
    getrandom(buffer, bytes, 0);
    return 0;
}

uint32_t arc4random(void)
{
    return (uint32_t)next_random();
}
