/* Ways to wait: asleep until another thread wakes, as the kernel's futexes do it, or for a lock.
 *
 * The lock is the last one of U. Drepper, "Futexes Are Tricky" (2011): nobody makes a system call
 * unless somebody waits, and who gives it back wakes one. A thread that takes it again at once can be
 * before the one that it has woken, and could be so each time if calls took the same time each time.
 * They do not: how long the way out of a call takes is chosen at random, so that a thread that waits
 * comes first after a few attempts, and its place in the queue is behind those that came before. */
#include "support.h"

enum { FREE, LOCKED, LOCKED_AND_AWAITED };

/* As many as a machine has cores at most. */
#define THREADS 64

/* The way into the system, and the way out of it: together what a system call takes on the mean. */
static void enter(void)
{
    sw_work(SYSTEM_CALL_WORK / 2);
}

/* Not thread-local: where those variables are depends on the process that the program runs in. */
static struct {
    uint32_t random;
} __attribute__((aligned(64))) of_threads[THREADS];

uint32_t support_random(void)
{
    uint32_t me = (uint32_t)sw_thread_self();
    uint32_t *random = &of_threads[me % THREADS].random;
    *random = *random * 1664525 + 1013904223 + (me + 1) * 2654435761u;
    return *random >> 16;
}

static void leave(void)
{
    sw_work(support_random() % (SYSTEM_CALL_WORK + 1));
}

/* Sleeps if the word has the value, until another thread wakes it. 0, or -EAGAIN if the word has
 * another value, or -ETIMEDOUT. */
int support_futex_wait(volatile uint32_t *word, uint32_t value, uint64_t deadline)
{
    enter();
    int result = (int)sw_futex_wait(word, value, deadline);
    leave();
    return result;
}

/* Wakes those that have slept longest on the word; how many. */
uint32_t support_futex_wake(volatile uint32_t *word, uint32_t most)
{
    enter();
    uint32_t woken = (uint32_t)sw_futex_wake(word, most);
    leave();
    return woken;
}

bool support_try_lock(volatile uint32_t *lock)
{
    uint32_t found = FREE;
    return __atomic_compare_exchange_n(lock, &found, LOCKED, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* As if others waited for it, too: who gives it back wakes. */
bool support_lock_awaited(volatile uint32_t *lock, uint64_t deadline)
{
    while (__atomic_exchange_n(lock, LOCKED_AND_AWAITED, __ATOMIC_SEQ_CST) != FREE) {
        if (support_futex_wait(lock, LOCKED_AND_AWAITED, deadline) == -ETIMEDOUT)
            return false;
    }
    return true;
}

/* Whether it was taken before the deadline. */
bool support_lock_until(volatile uint32_t *lock, uint64_t deadline)
{
    return support_try_lock(lock) || support_lock_awaited(lock, deadline);
}

void support_lock(volatile uint32_t *lock)
{
    support_lock_until(lock, SUPPORT_NEVER);
}

void support_unlock(volatile uint32_t *lock)
{
    if (__atomic_exchange_n(lock, FREE, __ATOMIC_SEQ_CST) == LOCKED_AND_AWAITED)
        support_futex_wake(lock, 1);
}
