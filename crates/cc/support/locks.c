/* Mutexes, spin locks, reader-writer locks, conditions, barriers and semaphores, with their state
 * in the first words of the program's own objects, so that the traffic of locks is traffic of those
 * lines. The waits are all waits for one word to change.
 *
 * Instructions with a lock stand where glibc has them too (taking and giving back a mutex, but only
 * taking a spin lock), because on x86 they order what was flushed before them. */
#include "support.h"

#include <pthread.h>
#include <time.h>

#define NEVER UINT64_MAX
/* Threads that try locks in turns can find each other's taken for ever, if all take the same time.
 * So each waits for a while of its own: at most this many instructions. */
#define OUT_OF_STEP 4096
/* A thread that gives a mutex back and takes it again at once is before all that wait for its line.
 * Who has tried so often becomes the heir: the owner gives the mutex to it instead of giving it back.
 * To become it takes one store that does not depend on whether the mutex is free just then. */
#define STARVED 32

static void get_out_of_step(uint64_t me)
{
    static __thread uint32_t state;
    state = state * 1664525 + 1013904223 + (uint32_t)me * 2654435761u;
    sw_work((state >> 16) % OUT_OF_STEP);
}

/* Waits while the word has the value; whether it changed before the deadline. */
static bool wait_until(volatile uint64_t *word, uint64_t value, uint64_t deadline)
{
    if (deadline != NEVER)
        return support_wait_limited(word, value, deadline);
    sw_wait_while(word, value);
    return true;
}

static bool change(volatile uint64_t *word, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static uint64_t look(volatile uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- mutexes ---- */

/* The kind is where the static initialisers of glibc put it; all else of them is 0. */
struct mutex {
    /* 0 if free, else the number of the owner and 1. */
    volatile uint64_t owner;
    /* How often the owner of a recursive one has locked it again. */
    uint64_t again;
    int kind;
    /* 0, or the number of the heir and 1. */
    volatile uint64_t heir;
};
_Static_assert(offsetof(struct mutex, kind) == offsetof(pthread_mutex_t, __data.__kind), "kind");
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "size of a mutex");
#define KIND(m) ((m)->kind & 3)

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    struct mutex *m = (struct mutex *)mutex;
    m->owner = 0;
    m->again = 0;
    m->heir = 0;
    m->kind = attributes == NULL ? 0 : *(const int *)attributes & 3;
    return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    return look(&((struct mutex *)mutex)->owner) == 0 ? 0 : EBUSY;
}

/* What locking it means to the thread that has it already; -1 if it has to wait. */
static int lock_again(struct mutex *m, bool tries)
{
    if (KIND(m) == PTHREAD_MUTEX_RECURSIVE_NP) {
        m->again++;
        return 0;
    }
    if (tries)
        return EBUSY;
    return KIND(m) == PTHREAD_MUTEX_ERRORCHECK_NP ? EDEADLK : -1;
}

static int lock_until(struct mutex *m, uint64_t deadline)
{
    uint64_t me = sw_thread_self() + 1;
    bool is_heir = false;
    for (unsigned tries = 1; !change(&m->owner, 0, me); tries++) {
        uint64_t owner = look(&m->owner);
        if (owner == me) {
            int result = is_heir ? 0 : lock_again(m, false);
            if (result >= 0)
                return result;
        }
        if (tries >= STARVED && deadline == NEVER && !is_heir)
            is_heir = change(&m->heir, 0, me);
        if (owner != 0 && !wait_until(&m->owner, owner, deadline))
            return ETIMEDOUT;
    }
    if (is_heir)
        m->heir = 0;
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return lock_until((struct mutex *)mutex, NEVER);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct mutex *m = (struct mutex *)mutex;
    uint64_t me = sw_thread_self() + 1;
    if (change(&m->owner, 0, me))
        return 0;
    if (look(&m->owner) == me)
        return lock_again(m, true);
    get_out_of_step(me);
    return EBUSY;
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at)
{
    if (!support_timespec_is_valid(at))
        return EINVAL;
    return lock_until((struct mutex *)mutex, support_deadline(clock, at));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at)
{
    return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, at);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct mutex *m = (struct mutex *)mutex;
    if (KIND(m) == PTHREAD_MUTEX_RECURSIVE_NP || KIND(m) == PTHREAD_MUTEX_ERRORCHECK_NP) {
        if (look(&m->owner) != sw_thread_self() + 1)
            return EPERM;
        if (m->again > 0) {
            m->again--;
            return 0;
        }
    }
    uint64_t heir = m->heir;
    if (heir != 0)
        m->heir = 0;
    __atomic_exchange_n(&m->owner, heir, __ATOMIC_SEQ_CST);
    return 0;
}

int pthread_mutex_consistent(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

/* ---- spin locks: 32 bits, 0 is free ---- */

int pthread_spin_init(pthread_spinlock_t *lock, int shared)
{
    (void)shared;
    *lock = 0;
    return 0;
}

int pthread_spin_destroy(pthread_spinlock_t *lock)
{
    (void)lock;
    return 0;
}

int pthread_spin_trylock(pthread_spinlock_t *lock)
{
    return __atomic_exchange_n(lock, 1, __ATOMIC_SEQ_CST) == 0 ? 0 : EBUSY;
}

int pthread_spin_lock(pthread_spinlock_t *lock)
{
    while (pthread_spin_trylock(lock) != 0)
        support_wait32((volatile uint32_t *)lock, 1);
    return 0;
}

int pthread_spin_unlock(pthread_spinlock_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return 0;
}

/* ---- reader-writer locks; readers are preferred, as glibc does by default ---- */

struct rwlock {
    /* 0 if free, the number of readers, or WRITER and the number of the writer. */
    volatile uint64_t state;
};
#define WRITER (1ul << 63)

int pthread_rwlock_init(pthread_rwlock_t *restrict lock,
                        const pthread_rwlockattr_t *restrict attributes)
{
    (void)attributes;
    ((struct rwlock *)lock)->state = 0;
    return 0;
}

int pthread_rwlock_destroy(pthread_rwlock_t *lock)
{
    return look(&((struct rwlock *)lock)->state) == 0 ? 0 : EBUSY;
}

static int read_until(struct rwlock *l, uint64_t deadline)
{
    for (;;) {
        uint64_t state = look(&l->state);
        if ((state & WRITER) == 0) {
            if (change(&l->state, state, state + 1))
                return 0;
        } else if (state == (WRITER | sw_thread_self())) {
            return EDEADLK;
        } else if (!wait_until(&l->state, state, deadline)) {
            return ETIMEDOUT;
        }
    }
}

static int write_until(struct rwlock *l, uint64_t deadline)
{
    uint64_t mine = WRITER | sw_thread_self();
    while (!change(&l->state, 0, mine)) {
        uint64_t state = look(&l->state);
        if (state == mine)
            return EDEADLK;
        if (state != 0 && !wait_until(&l->state, state, deadline))
            return ETIMEDOUT;
    }
    return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    return read_until((struct rwlock *)lock, NEVER);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    return write_until((struct rwlock *)lock, NEVER);
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
    struct rwlock *l = (struct rwlock *)lock;
    for (;;) {
        uint64_t state = look(&l->state);
        if ((state & WRITER) != 0)
            return EBUSY;
        if (change(&l->state, state, state + 1))
            return 0;
    }
}

int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
    return change(&((struct rwlock *)lock)->state, 0, WRITER | sw_thread_self()) ? 0 : EBUSY;
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                               const struct timespec *restrict at)
{
    if (!support_timespec_is_valid(at))
        return EINVAL;
    return read_until((struct rwlock *)lock, support_deadline(clock, at));
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                               const struct timespec *restrict at)
{
    if (!support_timespec_is_valid(at))
        return EINVAL;
    return write_until((struct rwlock *)lock, support_deadline(clock, at));
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at)
{
    return pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, at);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict at)
{
    return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, at);
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
    struct rwlock *l = (struct rwlock *)lock;
    uint64_t state = look(&l->state);
    if (state == 0)
        return EPERM;
    if ((state & WRITER) != 0)
        __atomic_exchange_n(&l->state, 0, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_sub(&l->state, 1, __ATOMIC_SEQ_CST);
    return 0;
}
