/* What a program can say to the machines of seawall.
 *
 * All of it is optional. The functions are weak: without seawall they are not there, the calls below
 * do nothing, and the program needs nothing to build and to run. */
#ifndef SEAWALL_H
#define SEAWALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void seawall_begin(void) __attribute__((weak));
void seawall_end(void) __attribute__((weak));
void seawall_output(uint64_t number) __attribute__((weak));
void seawall_order(void) __attribute__((weak));
void seawall_drain(void) __attribute__((weak));
void seawall_persistent(const void *at, size_t bytes) __attribute__((weak));

/* To be defined by the program, if it is to be its own check: recovers the pool at this path, and
 * returns 0 if it is sound. `seawall compare --check-entry` and `seawall explore --check-entry` call
 * it in a process in which main has not run, on what a crash has left. */
int seawall_check(const char *pool) __attribute__((visibility("default")));

/* The region begins that is measured: cycles, stalls and counts are of what follows, and the caches
 * hold as much of the program's memory as fits. */
static inline void seawall_region_begins(void)
{
    if (seawall_begin)
        seawall_begin();
}

/* The region ends. What follows runs, and is not measured. */
static inline void seawall_region_ends(void)
{
    if (seawall_end)
        seawall_end();
}

/* Operation `number` of this thread is done, as far as the outside world can see. It takes effect
 * after all earlier fences of the thread. */
static inline void seawall_reports(uint64_t number)
{
    if (seawall_output)
        seawall_output(number);
}

/* What this thread stored before (where stores must be flushed: and flushed) persists before what it
 * stores afterwards. It need not wait. After a crash, a later store is there only if the earlier
 * ones are. */
static inline void seawall_orders(void)
{
    if (seawall_order)
        seawall_order();
}

/* Returns when what this thread stored before (where stores must be flushed: and flushed) is
 * durable. A crash after the return loses none of it. */
static inline void seawall_drains(void)
{
    if (seawall_drain)
        seawall_drain();
}

/* These bytes survive a crash, though no file is behind them. To be said before they are touched; in
 * units of the page, 4096 bytes. */
static inline void seawall_is_persistent(const void *at, size_t bytes)
{
    if (seawall_persistent)
        seawall_persistent(at, bytes);
}

#ifdef __cplusplus
}
#endif
#endif
