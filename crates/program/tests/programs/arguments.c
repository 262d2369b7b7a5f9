/* Arguments on the stack, in pages of it that are known since a deeper frame. What was in such a
 * page when it became known is nothing that a later call may find. */
#include <stdio.h>

#define CALLS 40
#define FRAMES 90
#define TIMES 60

static long calls, wrong;

/* Its argument is the frame of another function, so that the accesses to that one are seen. */
__attribute__((noipa)) static void keep(volatile long *at)
{
    calls += *at;
}

/* Is called with zeros. */
__attribute__((noipa)) static void take(long a, long b, long c, long d, long e, long f,
                                        long on_stack, long also, long last)
{
    volatile long seen = 1;
    keep(&seen);
    wrong += (a | b | c | d | e | f | on_stack | also | last) != 0;
}

/* Calls it from deeper and deeper frames. */
__attribute__((noipa)) static void give(long left)
{
    take(0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (left > 1)
        give(left - 1);
    __asm__ volatile("");
}

/* Fills the stack without any access that is seen, and does so now and then. */
__attribute__((noipa)) static long fill(long left, long a, long b, long c, long d)
{
    if (left % FRAMES == 0)
        give(CALLS);
    if (left == 0)
        return 0;
    long below = fill(left - 1, a + 1, b + 1, c + 1, d + 1);
    __asm__ volatile("" : "+r"(below));
    return below + a + b + c + d;
}

int main(void)
{
    fill(FRAMES * TIMES, 1, 2, 3, 4);
    printf("%ld calls, %ld of them with wrong arguments\n", calls, wrong);
    return wrong != 0;
}
