/* Atomic operations on 16 bytes. Compilers call libatomic for them, whose accesses nobody sees;
 * these do what it does on a processor with cmpxchg16b. */
#include "support.h"

#include <stdbool.h>

typedef unsigned __int128 wide;

#define NAMED(name) __asm__(#name)

/* Replaces what is there if it is `expected`, which becomes what was there. */
static inline bool exchange(volatile wide *at, wide *expected, wide desired)
{
    uint64_t low = (uint64_t)*expected, high = (uint64_t)(*expected >> 64);
    bool done;
    __asm__ volatile("lock cmpxchg16b %1; sete %0"
                     : "=q"(done), "+m"(*at), "+a"(low), "+d"(high)
                     : "b"((uint64_t)desired), "c"((uint64_t)(desired >> 64))
                     : "memory", "cc");
    *expected = (wide)high << 64 | low;
    return done;
}

wide sw_load_16(volatile wide *at, int order) NAMED(__atomic_load_16);
wide sw_load_16(volatile wide *at, int order)
{
    wide found = 0;
    (void)order;
    exchange(at, &found, 0);
    return found;
}

bool sw_exchange_if_16(volatile wide *at, wide *expected, wide desired, int order, int failure)
    NAMED(__atomic_compare_exchange_16);
bool sw_exchange_if_16(volatile wide *at, wide *expected, wide desired, int order, int failure)
{
    wide found = *expected;
    bool done = exchange(at, &found, desired);
    (void)order, (void)failure;
    if (!done)
        *expected = found;
    return done;
}

/* Defines a function that replaces `old` by `new`, and returns `result`. */
#define REPLACE(type, function, name, new, result)                          \
    type function(volatile wide *at, wide value, int order) NAMED(name);    \
    type function(volatile wide *at, wide value, int order)                 \
    {                                                                       \
        wide old = 0;                                                       \
        (void)order;                                                        \
        while (!exchange(at, &old, new))                                    \
            continue;                                                       \
        return result;                                                      \
    }

REPLACE(void, sw_store_16, __atomic_store_16, value, )
REPLACE(wide, sw_exchange_16, __atomic_exchange_16, value, old)
REPLACE(wide, sw_fetch_add_16, __atomic_fetch_add_16, old + value, old)
REPLACE(wide, sw_fetch_sub_16, __atomic_fetch_sub_16, old - value, old)
REPLACE(wide, sw_fetch_and_16, __atomic_fetch_and_16, old & value, old)
REPLACE(wide, sw_fetch_or_16, __atomic_fetch_or_16, old | value, old)
REPLACE(wide, sw_fetch_xor_16, __atomic_fetch_xor_16, old ^ value, old)
REPLACE(wide, sw_fetch_nand_16, __atomic_fetch_nand_16, ~(old & value), old)
REPLACE(wide, sw_add_fetch_16, __atomic_add_fetch_16, old + value, old + value)
REPLACE(wide, sw_sub_fetch_16, __atomic_sub_fetch_16, old - value, old - value)
REPLACE(wide, sw_and_fetch_16, __atomic_and_fetch_16, old & value, old & value)
REPLACE(wide, sw_or_fetch_16, __atomic_or_fetch_16, old | value, old | value)
REPLACE(wide, sw_xor_fetch_16, __atomic_xor_fetch_16, old ^ value, old ^ value)
REPLACE(wide, sw_nand_fetch_16, __atomic_nand_fetch_16, ~(old & value), ~(old & value))
