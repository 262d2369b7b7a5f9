/* The attributes of threads and locks, which are small objects of the program: they are written
 * here and not by the C library, so that the machine sees what is in them. Most of what they say
 * changes nothing here and is only kept for those who ask. */
#include "support.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

/* ---- mutexes: the kind in 2 bits, then what is only remembered ---- */

#define KIND_BITS 3
#define SHARED_BIT 4
#define ROBUST_BIT 8
#define PROTOCOL_SHIFT 4

static int set_bits(int *word, int mask, int bits)
{
    *word = (*word & ~mask) | bits;
    return 0;
}

int pthread_mutexattr_init(pthread_mutexattr_t *a)
{
    *(int *)a = PTHREAD_MUTEX_NORMAL;
    return 0;
}

int pthread_mutexattr_destroy(pthread_mutexattr_t *a)
{
    (void)a;
    return 0;
}

int pthread_mutexattr_settype(pthread_mutexattr_t *a, int kind)
{
    return kind < 0 || kind > KIND_BITS ? EINVAL : set_bits((int *)a, KIND_BITS, kind);
}

int pthread_mutexattr_gettype(const pthread_mutexattr_t *restrict a, int *restrict kind)
{
    *kind = *(const int *)a & KIND_BITS;
    return 0;
}

int pthread_mutexattr_setpshared(pthread_mutexattr_t *a, int shared)
{
    return set_bits((int *)a, SHARED_BIT, shared ? SHARED_BIT : 0);
}

int pthread_mutexattr_getpshared(const pthread_mutexattr_t *restrict a, int *restrict shared)
{
    *shared = (*(const int *)a & SHARED_BIT) != 0;
    return 0;
}

int pthread_mutexattr_setrobust(pthread_mutexattr_t *a, int robust)
{
    return set_bits((int *)a, ROBUST_BIT, robust ? ROBUST_BIT : 0);
}

int pthread_mutexattr_getrobust(const pthread_mutexattr_t *restrict a, int *restrict robust)
{
    *robust = (*(const int *)a & ROBUST_BIT) != 0;
    return 0;
}

int pthread_mutexattr_setprotocol(pthread_mutexattr_t *a, int protocol)
{
    if (protocol < 0 || protocol > 3)
        return EINVAL;
    return set_bits((int *)a, 3 << PROTOCOL_SHIFT, protocol << PROTOCOL_SHIFT);
}

int pthread_mutexattr_getprotocol(const pthread_mutexattr_t *restrict a, int *restrict protocol)
{
    *protocol = *(const int *)a >> PROTOCOL_SHIFT & 3;
    return 0;
}

/* ---- conditions: the clock ---- */

int pthread_condattr_init(pthread_condattr_t *a)
{
    *(int *)a = CLOCK_REALTIME;
    return 0;
}

int pthread_condattr_destroy(pthread_condattr_t *a)
{
    (void)a;
    return 0;
}

int pthread_condattr_setclock(pthread_condattr_t *a, clockid_t clock)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return EINVAL;
    *(int *)a = clock;
    return 0;
}

int pthread_condattr_getclock(const pthread_condattr_t *restrict a, clockid_t *restrict clock)
{
    *clock = *(const int *)a;
    return 0;
}

/* There is one process: what is shared between processes is shared between threads. */
int pthread_condattr_setpshared(pthread_condattr_t *a, int shared)
{
    (void)a, (void)shared;
    return 0;
}

int pthread_condattr_getpshared(const pthread_condattr_t *restrict a, int *restrict shared)
{
    (void)a;
    *shared = PTHREAD_PROCESS_PRIVATE;
    return 0;
}

/* ---- reader-writer locks and barriers: whether shared, and which side is preferred ---- */

int pthread_rwlockattr_init(pthread_rwlockattr_t *a)
{
    memset(a, 0, sizeof *a);
    return 0;
}

int pthread_rwlockattr_destroy(pthread_rwlockattr_t *a)
{
    (void)a;
    return 0;
}

int pthread_rwlockattr_setpshared(pthread_rwlockattr_t *a, int shared)
{
    ((int *)a)[0] = shared;
    return 0;
}

int pthread_rwlockattr_getpshared(const pthread_rwlockattr_t *restrict a, int *restrict shared)
{
    *shared = ((const int *)a)[0];
    return 0;
}

int pthread_rwlockattr_setkind_np(pthread_rwlockattr_t *a, int kind)
{
    ((int *)a)[1] = kind;
    return 0;
}

int pthread_rwlockattr_getkind_np(const pthread_rwlockattr_t *restrict a, int *restrict kind)
{
    *kind = ((const int *)a)[1];
    return 0;
}

int pthread_barrierattr_init(pthread_barrierattr_t *a)
{
    *(int *)a = PTHREAD_PROCESS_PRIVATE;
    return 0;
}

int pthread_barrierattr_destroy(pthread_barrierattr_t *a)
{
    (void)a;
    return 0;
}

int pthread_barrierattr_setpshared(pthread_barrierattr_t *a, int shared)
{
    *(int *)a = shared;
    return 0;
}

int pthread_barrierattr_getpshared(const pthread_barrierattr_t *restrict a, int *restrict shared)
{
    *shared = *(const int *)a;
    return 0;
}

/* ---- threads: only `detached` is used, by pthread_create, which reads the first word ---- */

struct thread_attributes {
    int detached;
    int scope;
    int inherits;
    int policy;
    int priority;
    uint64_t guard_bytes;
    void *stack;
    uint64_t stack_bytes;
};
_Static_assert(sizeof(struct thread_attributes) <= sizeof(pthread_attr_t), "attributes");

/* What a thread's stack has, as by default on Linux. */
#define STACK_BYTES (8ul << 20)

int pthread_attr_init(pthread_attr_t *a)
{
    struct thread_attributes initial = {.guard_bytes = 4096, .stack_bytes = STACK_BYTES};
    memcpy(a, &initial, sizeof initial);
    return 0;
}

int pthread_attr_destroy(pthread_attr_t *a)
{
    (void)a;
    return 0;
}

/* A setter and a getter of one field. */
#define FIELD(name, field, type)                                                                   \
    int pthread_attr_set##name(pthread_attr_t *a, type value)                                      \
    {                                                                                              \
        ((struct thread_attributes *)a)->field = value;                                            \
        return 0;                                                                                  \
    }                                                                                              \
    int pthread_attr_get##name(const pthread_attr_t *restrict a, type *restrict value)             \
    {                                                                                              \
        *value = ((const struct thread_attributes *)a)->field;                                     \
        return 0;                                                                                  \
    }

FIELD(detachstate, detached, int)
FIELD(scope, scope, int)
FIELD(inheritsched, inherits, int)
FIELD(schedpolicy, policy, int)
FIELD(guardsize, guard_bytes, size_t)
FIELD(stacksize, stack_bytes, size_t)

int pthread_attr_setschedparam(pthread_attr_t *restrict a, const struct sched_param *restrict value)
{
    ((struct thread_attributes *)a)->priority = value->sched_priority;
    return 0;
}

int pthread_attr_getschedparam(const pthread_attr_t *restrict a, struct sched_param *restrict value)
{
    value->sched_priority = ((const struct thread_attributes *)a)->priority;
    return 0;
}

/* The stack that the program offers is not used. */
int pthread_attr_setstack(pthread_attr_t *a, void *stack, size_t bytes)
{
    ((struct thread_attributes *)a)->stack = stack;
    return pthread_attr_setstacksize(a, bytes);
}

int pthread_attr_getstack(const pthread_attr_t *restrict a, void **restrict stack,
                          size_t *restrict bytes)
{
    *stack = ((const struct thread_attributes *)a)->stack;
    return pthread_attr_getstacksize(a, bytes);
}

int pthread_attr_setaffinity_np(pthread_attr_t *a, size_t bytes, const cpu_set_t *set)
{
    (void)a, (void)bytes, (void)set;
    return 0;
}
