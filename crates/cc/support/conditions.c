/* Conditions, barriers and semaphores. As in `locks.c`, their state is in the program's objects and
 * each wait is for one word to change.
 *
 * A thread that waits for a condition takes a ticket; a signal lets the next ticket go, a broadcast
 * all. So nobody is woken without a signal, with one exception: a wait that times out lets all go,
 * since its ticket would otherwise use up a signal that is meant for another thread. */
#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#define NEVER UINT64_MAX

static uint64_t look(volatile uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool change(volatile uint64_t *word, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* ---- conditions ---- */

struct condition {
    /* Tickets that were taken. */
    volatile uint64_t taken;
    /* Tickets below this may go. */
    volatile uint64_t released;
    /* Threads that may still look at this object. */
    volatile uint64_t inside;
    int clock;
};
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "condition");

int pthread_cond_init(pthread_cond_t *restrict condition,
                      const pthread_condattr_t *restrict attributes)
{
    struct condition *c = (struct condition *)condition;
    c->taken = 0;
    c->released = 0;
    c->inside = 0;
    c->clock = attributes == NULL ? CLOCK_REALTIME : *(const int *)attributes;
    return 0;
}

int pthread_cond_destroy(pthread_cond_t *condition)
{
    struct condition *c = (struct condition *)condition;
    for (uint64_t inside; (inside = look(&c->inside)) != 0;)
        sw_wait_while(&c->inside, inside);
    return 0;
}

/* Lets tickets go: one or all. */
static void release(struct condition *c, bool all)
{
    for (;;) {
        uint64_t released = look(&c->released);
        uint64_t taken = look(&c->taken);
        if (released >= taken || change(&c->released, released, all ? taken : released + 1))
            return;
    }
}

/* Waits until the ticket may go; whether that was before the deadline. */
static bool wait_for_ticket(struct condition *c, uint64_t ticket, uint64_t deadline)
{
    for (;;) {
        uint64_t released = look(&c->released);
        if (released > ticket)
            return true;
        if (deadline == NEVER) {
            sw_wait_while(&c->released, released);
        } else if (!support_wait_limited(&c->released, released, deadline)) {
            release(c, true);
            return false;
        }
    }
}

static int wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct condition *c = (struct condition *)condition;
    __atomic_fetch_add(&c->inside, 1, __ATOMIC_SEQ_CST);
    uint64_t ticket = __atomic_fetch_add(&c->taken, 1, __ATOMIC_SEQ_CST);
    int error = pthread_mutex_unlock(mutex);
    if (error != 0) {
        release(c, true);
        __atomic_fetch_sub(&c->inside, 1, __ATOMIC_SEQ_CST);
        return error;
    }
    bool in_time = wait_for_ticket(c, ticket, deadline);
    __atomic_fetch_sub(&c->inside, 1, __ATOMIC_SEQ_CST);
    error = pthread_mutex_lock(mutex);
    return error != 0 ? error : in_time ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex)
{
    return wait_until(condition, mutex, NEVER);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict at)
{
    if (!support_timespec_is_valid(at))
        return EINVAL;
    return wait_until(condition, mutex, support_deadline(clock, at));
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at)
{
    int clock = ((struct condition *)condition)->clock;
    return pthread_cond_clockwait(condition, mutex, clock, at);
}

int pthread_cond_signal(pthread_cond_t *condition)
{
    release((struct condition *)condition, false);
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    release((struct condition *)condition, true);
    return 0;
}

/* ---- barriers ---- */

struct barrier {
    /* How many threads it waits for. */
    uint64_t count;
    volatile uint64_t arrived;
    /* How often it has let them go. */
    volatile uint64_t round;
    /* Threads that were let go and may still look at this object. */
    volatile uint64_t leaving;
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "barrier");

int pthread_barrier_init(pthread_barrier_t *restrict barrier,
                         const pthread_barrierattr_t *restrict attributes, unsigned count)
{
    (void)attributes;
    if (count == 0)
        return EINVAL;
    struct barrier *b = (struct barrier *)barrier;
    b->count = count;
    b->arrived = 0;
    b->round = 0;
    b->leaving = 0;
    return 0;
}

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    struct barrier *b = (struct barrier *)barrier;
    uint64_t count = b->count;
    uint64_t round = look(&b->round);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_SEQ_CST) == count) {
        b->arrived = 0;
        __atomic_fetch_add(&b->leaving, count - 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&b->round, 1, __ATOMIC_SEQ_CST);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    sw_wait_while(&b->round, round);
    __atomic_fetch_sub(&b->leaving, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
    struct barrier *b = (struct barrier *)barrier;
    for (uint64_t leaving; (leaving = look(&b->leaving)) != 0;)
        sw_wait_while(&b->leaving, leaving);
    return 0;
}

/* ---- semaphores: the first word is the value ---- */

static volatile uint64_t *value_of(sem_t *semaphore)
{
    return (volatile uint64_t *)semaphore;
}

int sem_init(sem_t *semaphore, int shared, unsigned value)
{
    (void)shared;
    if (value > INT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    *value_of(semaphore) = value;
    return 0;
}

int sem_destroy(sem_t *semaphore)
{
    (void)semaphore;
    return 0;
}

int sem_trywait(sem_t *semaphore)
{
    volatile uint64_t *word = value_of(semaphore);
    for (uint64_t value; (value = look(word)) != 0;) {
        if (change(word, value, value - 1))
            return 0;
    }
    errno = EAGAIN;
    return -1;
}

int sem_wait(sem_t *semaphore)
{
    int errno_before = errno;
    while (sem_trywait(semaphore) != 0)
        sw_wait_while(value_of(semaphore), 0);
    errno = errno_before;
    return 0;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict at)
{
    while (sem_trywait(semaphore) != 0) {
        if (!support_timespec_is_valid(at)) {
            errno = EINVAL;
            return -1;
        }
        if (!support_wait_limited(value_of(semaphore), 0, support_deadline(clock, at))) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict at)
{
    return sem_clockwait(semaphore, CLOCK_REALTIME, at);
}

int sem_post(sem_t *semaphore)
{
    __atomic_fetch_add(value_of(semaphore), 1, __ATOMIC_SEQ_CST);
    return 0;
}

int sem_getvalue(sem_t *restrict semaphore, int *restrict value)
{
    *value = (int)look(value_of(semaphore));
    return 0;
}

/* Semaphores with a name are shared with other processes, which do not exist here. */
sem_t *sem_open(const char *name, int flags, ...)
{
    (void)name, (void)flags;
    support_refuse("sem_open");
}
