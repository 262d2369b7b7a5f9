/* Ways to wait, all by the one that the page offers: while an aligned word keeps a value. */
#include "support.h"

/* In so many turns of a loop that waits, a clock that goes at all moves. */
#define TURNS_MOST 1000

/* Waits while the word has this value, but not beyond the deadline, in nanoseconds of simulated
 * time. Whether the word had another value in time. Where the clock stands still nothing is
 * simulated yet, and nobody is there to change the word: the time is taken to be over. */
bool support_wait_limited(volatile uint64_t *word, uint64_t value, uint64_t deadline)
{
    uint64_t before = sw_nanoseconds();
    unsigned turns = 0;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
        uint64_t now = sw_nanoseconds();
        if (now >= deadline || (turns++ == TURNS_MOST && now == before))
            return false;
        sw_yield();
    }
    return true;
}

/* Waits while a word of 32 bits has this value. Its neighbour only makes this look again. */
void support_wait32(volatile uint32_t *word, uint32_t value)
{
    uintptr_t place = (uintptr_t)word;
    volatile uint64_t *around = (volatile uint64_t *)(place & ~(uintptr_t)7);
    unsigned shift = place & 4 ? 32 : 0;
    for (;;) {
        uint64_t seen = __atomic_load_n(around, __ATOMIC_ACQUIRE);
        if ((uint32_t)(seen >> shift) != value)
            return;
        sw_wait_while(around, seen);
    }
}

/* A lock of the library itself: 0 is free. */
void support_lock(volatile uint64_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
        sw_wait_while(lock, 1);
}

void support_unlock(volatile uint64_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
