/* Mutexes, spin locks and reader-writer locks, with their state in the first words of the program's
 * own objects, so that the traffic of locks is traffic of those lines. Who waits sleeps, as in glibc,
 * but for spin locks and the first attempts at an adaptive mutex.
 *
 * Instructions with a lock stand where glibc has them too (taking and giving back a mutex, but only
 * taking a spin lock), because on x86 they order what was flushed before them. */
#include "support.h"

#include <pthread.h>
#include <time.h>

/* Threads that try locks in turns can find each other's taken for ever, if all take the same time.
 * So each waits for a while of its own: at most this many instructions. */
#define OUT_OF_STEP 4096
/* An adaptive mutex is looked at twice as often as it lately took, and this; at most so often. */
#define SPINS_AT_LEAST 10
#define SPINS_AT_MOST 100

static void get_out_of_step(void)
{
    sw_work(support_random() % OUT_OF_STEP);
}

static bool change(volatile uint32_t *word, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static uint32_t look(volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The number of the thread and 1. */
static uint32_t number_of_self(void)
{
    return (uint32_t)sw_thread_self() + 1;
}

/* ---- mutexes ---- */

/* As glibc's, where static initialisers put the kind; all else of them is 0. */
struct mutex {
    volatile uint32_t lock;
    /* How often the owner of a recursive one has locked it again. */
    uint32_t again;
    volatile uint32_t owner;
    /* 1 if it has an owner. */
    uint32_t users;
    int kind;
    /* How often an adaptive one was lately looked at. */
    int16_t spins;
};
_Static_assert(offsetof(struct mutex, kind) == offsetof(pthread_mutex_t, __data.__kind), "kind");
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "size of a mutex");
#define KIND(m) ((m)->kind & 3)

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    int kind = attributes == NULL ? 0 : *(const int *)attributes & 3;
    *(struct mutex *)mutex = (struct mutex){.kind = kind};
    return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    return ((struct mutex *)mutex)->users == 0 ? 0 : EBUSY;
}

/* Whether the kind of the mutex asks who has it, and this thread has it. */
static bool is_mine(struct mutex *m)
{
    return (KIND(m) == PTHREAD_MUTEX_RECURSIVE_NP || KIND(m) == PTHREAD_MUTEX_ERRORCHECK_NP) &&
           look(&m->owner) == number_of_self();
}

static void take(struct mutex *m)
{
    m->owner = number_of_self();
    m->users++;
}

/* Looks at an adaptive mutex for a while; whether it was taken. */
static bool spin(struct mutex *m)
{
    int most = 2 * m->spins + SPINS_AT_LEAST;
    int turns = 0;
    most = most < SPINS_AT_MOST ? most : SPINS_AT_MOST;
    bool is_taken = false;
    while (!is_taken && turns++ < most) {
        __builtin_ia32_pause();
        is_taken = look(&m->lock) == 0 && support_try_lock(&m->lock);
    }
    m->spins = (int16_t)(m->spins + (turns - m->spins) / 8);
    return is_taken;
}

static int lock_until(struct mutex *m, uint64_t deadline)
{
    if (is_mine(m)) {
        if (KIND(m) == PTHREAD_MUTEX_ERRORCHECK_NP)
            return EDEADLK;
        m->again++;
        return 0;
    }
    if (!support_try_lock(&m->lock) && !(KIND(m) == PTHREAD_MUTEX_ADAPTIVE_NP && spin(m)) &&
        !support_lock_awaited(&m->lock, deadline))
        return ETIMEDOUT;
    take(m);
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return lock_until((struct mutex *)mutex, SUPPORT_NEVER);
}

/* Others that waited for the condition may wait for the mutex now. */
int support_mutex_lock_after_wait(pthread_mutex_t *mutex)
{
    struct mutex *m = (struct mutex *)mutex;
    if (is_mine(m))
        return lock_until(m, SUPPORT_NEVER);
    support_lock_awaited(&m->lock, SUPPORT_NEVER);
    take(m);
    return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct mutex *m = (struct mutex *)mutex;
    if (is_mine(m) && KIND(m) == PTHREAD_MUTEX_RECURSIVE_NP) {
        m->again++;
        return 0;
    }
    if (support_try_lock(&m->lock)) {
        take(m);
        return 0;
    }
    get_out_of_step();
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
        if (!is_mine(m))
            return EPERM;
        if (m->again > 0) {
            m->again--;
            return 0;
        }
    }
    m->owner = 0;
    m->users--;
    support_unlock(&m->lock);
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
    while (pthread_spin_trylock(lock) != 0) {
        /* The machine waits for aligned 8 bytes; a change of the neighbour only ends the wait. */
        uintptr_t place = (uintptr_t)lock;
        volatile uint64_t *around = (volatile uint64_t *)(place & ~(uintptr_t)7);
        uint64_t seen = __atomic_load_n(around, __ATOMIC_ACQUIRE);
        if ((uint32_t)(seen >> (place & 4 ? 32 : 0)) != 0)
            sw_wait_while(around, seen);
    }
    return 0;
}

int pthread_spin_unlock(pthread_spinlock_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return 0;
}

/* ---- reader-writer locks; readers are preferred, as glibc does by default ---- */

/* Those of one kind that wait: they sleep while the gate has the value that they found. */
struct waiters {
    volatile uint32_t gate;
    volatile uint32_t count;
};

struct rwlock {
    /* 0 if free, the number of readers, or WRITER. */
    volatile uint32_t state;
    volatile uint32_t writer;
    struct waiters readers;
    struct waiters writers;
};
_Static_assert(sizeof(struct rwlock) <= offsetof(pthread_rwlock_t, __data.__flags), "rwlock");
#define WRITER (1u << 31)

int pthread_rwlock_init(pthread_rwlock_t *restrict lock,
                        const pthread_rwlockattr_t *restrict attributes)
{
    (void)attributes;
    *(struct rwlock *)lock = (struct rwlock){0};
    return 0;
}

int pthread_rwlock_destroy(pthread_rwlock_t *lock)
{
    return look(&((struct rwlock *)lock)->state) == 0 ? 0 : EBUSY;
}

static bool try_read(struct rwlock *l)
{
    for (uint32_t state; ((state = look(&l->state)) & WRITER) == 0;) {
        if (change(&l->state, state, state + 1))
            return true;
    }
    return false;
}

static bool try_write(struct rwlock *l)
{
    if (!change(&l->state, 0, WRITER))
        return false;
    l->writer = number_of_self();
    return true;
}

/* Lets so many of those that wait look again. */
static void open_gate(struct waiters *w, uint32_t most)
{
    __atomic_fetch_add(&w->gate, 1, __ATOMIC_SEQ_CST);
    support_futex_wake(&w->gate, most);
}

/* The lock has become free: all readers that wait may have it, or if there are none, a writer. */
static void pass_on(struct rwlock *l)
{
    if (look(&l->readers.count) != 0)
        open_gate(&l->readers, SUPPORT_ALL);
    else if (look(&l->writers.count) != 0)
        open_gate(&l->writers, 1);
}

/* Sleeps until this attempt succeeds. Who gives up may have been the one that was counted when the
 * lock became free, and passes that on. */
static int wait_until(struct rwlock *l, struct waiters *w, bool (*attempt)(struct rwlock *),
                      uint64_t deadline)
{
    int result = 0;
    __atomic_fetch_add(&w->count, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t gate = look(&w->gate);
        if (attempt(l))
            break;
        if (support_futex_wait(&w->gate, gate, deadline) == -ETIMEDOUT) {
            result = ETIMEDOUT;
            break;
        }
    }
    __atomic_fetch_sub(&w->count, 1, __ATOMIC_SEQ_CST);
    if (result != 0 && look(&l->state) == 0)
        pass_on(l);
    return result;
}

static int read_until(struct rwlock *l, uint64_t deadline)
{
    if (look(&l->state) == WRITER && look(&l->writer) == number_of_self())
        return EDEADLK;
    return try_read(l) ? 0 : wait_until(l, &l->readers, try_read, deadline);
}

static int write_until(struct rwlock *l, uint64_t deadline)
{
    if (look(&l->writer) == number_of_self())
        return EDEADLK;
    return try_write(l) ? 0 : wait_until(l, &l->writers, try_write, deadline);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    return read_until((struct rwlock *)lock, SUPPORT_NEVER);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    return write_until((struct rwlock *)lock, SUPPORT_NEVER);
}

int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
    return try_read((struct rwlock *)lock) ? 0 : EBUSY;
}

int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
    return try_write((struct rwlock *)lock) ? 0 : EBUSY;
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
    uint32_t state = look(&l->state);
    if (state == 0)
        return EPERM;
    if (state == WRITER) {
        l->writer = 0;
        __atomic_exchange_n(&l->state, 0, __ATOMIC_SEQ_CST);
        pass_on(l);
    } else if (__atomic_fetch_sub(&l->state, 1, __ATOMIC_SEQ_CST) == 1) {
        pass_on(l);
    }
    return 0;
}
