/* Conditions, barriers and semaphores. As in `locks.c`, their state is in the program's objects, and
 * who waits sleeps.
 *
 * The threads that wait for a condition are in two groups, as in glibc. Signals are for the older
 * one: each lets one of it go, whichever comes first. Who comes to wait joins the younger one, so
 * that it cannot take a signal that was given before. When nobody is left in the older group that
 * has no signal, the younger one takes its place; its own place must be empty by then. So nobody is
 * let go without a signal, and a wait that times out takes none. */
#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static uint32_t look(volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint32_t add(volatile uint32_t *word, uint32_t number)
{
    return __atomic_add_fetch(word, number, __ATOMIC_SEQ_CST);
}

/* Words that count in twos, and whose last bit says that somebody sleeps until the count is 0. */
#define ONE 2u
#define AWAITED 1u

/* Takes one away; wakes who sleeps if that was the last. */
static void take_away(volatile uint32_t *word)
{
    if (add(word, -ONE) == AWAITED)
        support_futex_wake(word, SUPPORT_ALL);
}

static void wait_for_none(volatile uint32_t *word)
{
    while (look(word) >= ONE) {
        uint32_t seen = __atomic_or_fetch(word, AWAITED, __ATOMIC_SEQ_CST);
        if (seen >= ONE)
            support_futex_wait(word, seen, SUPPORT_NEVER);
    }
}

/* ---- conditions ---- */

struct condition {
    /* Of what follows, but for taking a signal. */
    volatile uint32_t lock;
    /* Which group is the older one: 0 or 1. */
    uint32_t older;
    /* The threads of each group that have no signal. */
    uint32_t left[2];
    /* The signals of each group that nobody has taken yet; in twos. */
    volatile uint32_t signals[2];
    /* Threads that may still look at this object; in twos. */
    volatile uint32_t inside;
    int clock;
};
_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "condition");

int pthread_cond_init(pthread_cond_t *restrict condition,
                      const pthread_condattr_t *restrict attributes)
{
    int clock = attributes == NULL ? CLOCK_REALTIME : *(const int *)attributes;
    *(struct condition *)condition = (struct condition){.clock = clock};
    return 0;
}

int pthread_cond_destroy(pthread_cond_t *condition)
{
    wait_for_none(&((struct condition *)condition)->inside);
    return 0;
}

/* Takes a signal of this group, if there is one. */
static bool take_signal(struct condition *c, uint32_t group)
{
    volatile uint32_t *signals = &c->signals[group];
    for (uint32_t seen = look(signals); seen >= ONE;) {
        if (__atomic_compare_exchange_n(signals, &seen, seen - ONE, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE)) {
            if (seen - ONE == AWAITED)
                support_futex_wake(signals, SUPPORT_ALL);
            return true;
        }
    }
    return false;
}

/* Whether there is a thread that needs a signal; it is in the older group then. The lock is given
 * back while the older group's last signals are taken: who has timed out needs it. */
static bool finds_some(struct condition *c)
{
    for (;;) {
        uint32_t group = c->older;
        if (c->left[group] > 0)
            return true;
        if (c->left[!group] == 0)
            return false;
        uint32_t signals = __atomic_or_fetch(&c->signals[group], AWAITED, __ATOMIC_SEQ_CST);
        if (signals == AWAITED) {
            c->signals[group] = 0;
            c->older = !group;
            continue;
        }
        support_unlock(&c->lock);
        support_futex_wait(&c->signals[group], signals, SUPPORT_NEVER);
        support_lock(&c->lock);
    }
}

/* Lets one go, or all that wait now. */
static void release(struct condition *c, bool all)
{
    if (look(&c->inside) < ONE)
        return;
    support_lock(&c->lock);
    uint32_t needed = all ? c->left[0] + c->left[1] : 1;
    uint32_t group = 0, given = 0;
    while (needed > 0) {
        if (given > 0)
            support_futex_wake(&c->signals[group], given);
        given = 0;
        if (!finds_some(c))
            break;
        group = c->older;
        given = needed < c->left[group] ? needed : c->left[group];
        c->left[group] -= given;
        needed -= given;
        add(&c->signals[group], ONE * given);
    }
    support_unlock(&c->lock);
    if (given > 0)
        support_futex_wake(&c->signals[group], given);
}

static uint32_t join_younger(struct condition *c)
{
    add(&c->inside, ONE);
    support_lock(&c->lock);
    uint32_t group = !c->older;
    c->left[group]++;
    support_unlock(&c->lock);
    return group;
}

/* Leaves without a signal, unless there is one by now; whether there was none. */
static bool give_up(struct condition *c, uint32_t group)
{
    support_lock(&c->lock);
    bool has_none = !take_signal(c, group);
    if (has_none)
        c->left[group]--;
    support_unlock(&c->lock);
    return has_none;
}

/* Whether a signal came before the deadline. */
static bool wait_for_signal(struct condition *c, uint32_t group, uint64_t deadline)
{
    while (!take_signal(c, group)) {
        if (support_futex_wait(&c->signals[group], 0, deadline) == -ETIMEDOUT)
            return !give_up(c, group);
    }
    return true;
}

static int wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline)
{
    struct condition *c = (struct condition *)condition;
    uint32_t group = join_younger(c);
    int error = pthread_mutex_unlock(mutex);
    if (error != 0) {
        give_up(c, group);
        take_away(&c->inside);
        return error;
    }
    bool in_time = wait_for_signal(c, group, deadline);
    take_away(&c->inside);
    error = support_mutex_lock_after_wait(mutex);
    return error != 0 ? error : in_time ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex)
{
    return wait_until(condition, mutex, SUPPORT_NEVER);
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
    /* The number of each thread that has come, from 1 on, and the highest that may go. */
    volatile uint64_t arrived;
    volatile uint64_t released;
    /* How many threads it waits for. */
    uint32_t count;
    /* Threads that do not look at this object any more; in twos. */
    volatile uint32_t gone;
};
_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "barrier");

int pthread_barrier_init(pthread_barrier_t *restrict barrier,
                         const pthread_barrierattr_t *restrict attributes, unsigned count)
{
    (void)attributes;
    if (count == 0)
        return EINVAL;
    *(struct barrier *)barrier = (struct barrier){.count = count};
    return 0;
}

/* The low half of the word that threads sleep on. */
static volatile uint32_t *low_half(volatile uint64_t *word)
{
    return (volatile uint32_t *)word;
}

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    struct barrier *b = (struct barrier *)barrier;
    uint64_t mine = __atomic_add_fetch(&b->arrived, 1, __ATOMIC_SEQ_CST);
    bool is_last = mine % b->count == 0;
    if (is_last) {
        __atomic_fetch_add(&b->released, b->count, __ATOMIC_SEQ_CST);
        support_futex_wake(low_half(&b->released), SUPPORT_ALL);
    }
    for (uint64_t seen; (seen = __atomic_load_n(&b->released, __ATOMIC_ACQUIRE)) < mine;)
        support_futex_wait(low_half(&b->released), (uint32_t)seen, SUPPORT_NEVER);
    if ((add(&b->gone, ONE) & AWAITED) != 0)
        support_futex_wake(&b->gone, SUPPORT_ALL);
    return is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
    struct barrier *b = (struct barrier *)barrier;
    uint32_t all = ONE * (uint32_t)b->arrived | AWAITED;
    for (uint32_t gone; (gone = __atomic_or_fetch(&b->gone, AWAITED, __ATOMIC_SEQ_CST)) != all;)
        support_futex_wait(&b->gone, gone, SUPPORT_NEVER);
    return 0;
}

/* ---- semaphores: the value, and the number of threads that wait ---- */

#define WAITS (1ul << 32)

static volatile uint64_t *state_of(sem_t *semaphore)
{
    return (volatile uint64_t *)semaphore;
}

/* Takes one from the value, if it is not 0, and this from the state besides. */
static bool take_one(volatile uint64_t *state, uint64_t besides)
{
    for (uint64_t seen = __atomic_load_n(state, __ATOMIC_ACQUIRE); (uint32_t)seen != 0;) {
        if (__atomic_compare_exchange_n(state, &seen, seen - 1 - besides, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE))
            return true;
    }
    return false;
}

int sem_init(sem_t *semaphore, int shared, unsigned value)
{
    (void)shared;
    if (value > INT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    *state_of(semaphore) = value;
    return 0;
}

int sem_destroy(sem_t *semaphore)
{
    (void)semaphore;
    return 0;
}

int sem_trywait(sem_t *semaphore)
{
    if (take_one(state_of(semaphore), 0))
        return 0;
    errno = EAGAIN;
    return -1;
}

/* Whether it was taken before the deadline. */
static bool take_until(sem_t *semaphore, uint64_t deadline)
{
    volatile uint64_t *state = state_of(semaphore);
    __atomic_fetch_add(state, WAITS, __ATOMIC_SEQ_CST);
    while (!take_one(state, WAITS)) {
        if (support_futex_wait(low_half(state), 0, deadline) == -ETIMEDOUT) {
            __atomic_fetch_sub(state, WAITS, __ATOMIC_SEQ_CST);
            return false;
        }
    }
    return true;
}

int sem_wait(sem_t *semaphore)
{
    if (!take_one(state_of(semaphore), 0))
        take_until(semaphore, SUPPORT_NEVER);
    return 0;
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict at)
{
    if (take_one(state_of(semaphore), 0))
        return 0;
    if (!support_timespec_is_valid(at)) {
        errno = EINVAL;
        return -1;
    }
    if (take_until(semaphore, support_deadline(clock, at)))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict at)
{
    return sem_clockwait(semaphore, CLOCK_REALTIME, at);
}

int sem_post(sem_t *semaphore)
{
    volatile uint64_t *state = state_of(semaphore);
    if (__atomic_fetch_add(state, 1, __ATOMIC_SEQ_CST) >= WAITS)
        support_futex_wake(low_half(state), 1);
    return 0;
}

int sem_getvalue(sem_t *restrict semaphore, int *restrict value)
{
    *value = (int)(uint32_t)__atomic_load_n(state_of(semaphore), __ATOMIC_ACQUIRE);
    return 0;
}

/* Semaphores with a name are shared with other processes, which do not exist here. */
sem_t *sem_open(const char *name, int flags, ...)
{
    (void)name, (void)flags;
    support_refuse("sem_open");
}
