/* What the files of the support library share. The first header of each of them, because it says
 * which C library is meant.
 *
 * Everything here is compiled like the program: its accesses are accesses of the program. All
 * threads of the program are fibers of one thread of the system, and any simulated access may let
 * another of them run. So a function of the C library may be called only where it cannot wait for
 * another thread, and between host_begin and host_end, where no other thread of the program runs.
 * */
#ifndef SEAWALL_SUPPORT_H
#define SEAWALL_SUPPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* Headers are not to define functions that are defined here. */
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif

#include "page.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of the support library only: never a name that the program sees. */
#define SUPPORT __attribute__((visibility("hidden")))
/* One function by another name. */
#if __has_attribute(copy)
#define ALIAS(name) __attribute__((alias(#name), copy(name)))
#else
#define ALIAS(name) __attribute__((alias(#name)))
#endif

/* Numbers of threads are below this. */
#define SUPPORT_THREADS 1024

/* The function of this name that the C library has, looked up once. */
#define REAL(name)                                                                                 \
    ({                                                                                             \
        static void *real_slot;                                                                    \
        (__typeof__(&name))support_real(&real_slot, #name);                                        \
    })

/* The value of an expression that the C library computes, unseen by the machine. */
#define HOST(expression)                                                                           \
    ({                                                                                             \
        support_host_begin();                                                                      \
        __typeof__(expression) host_value = (expression);                                          \
        support_host_end();                                                                        \
        host_value;                                                                                \
    })

/* About how many instructions it takes that are not seen: a system call, and making this many bytes
 * of text by a format or moving them through a stream. */
#define SYSTEM_CALL_WORK 1000
#define FORMAT_WORK(bytes) (200 + 10 * (uint64_t)(bytes))
#define STREAM_WORK(bytes) (60 + (uint64_t)(bytes) / 8)

/* host.c */
SUPPORT void *support_real(void **slot, const char *name);
SUPPORT void support_host_begin(void);
SUPPORT void support_host_end(void);
SUPPORT bool support_in_host(void);
SUPPORT _Noreturn void support_refuse(const char *name);
/* Says a line on the standard error, and ends the program as abort does. */
SUPPORT _Noreturn void support_abort(const char *message);
/* What a checked function does when its buffer is too small. */
SUPPORT _Noreturn void support_overflow(void);

/* waiting.c */
/* A deadline that never comes. All are in nanoseconds of simulated time. */
#define SUPPORT_NEVER UINT64_MAX
#define SUPPORT_ALL INT32_MAX
SUPPORT int support_futex_wait(volatile uint32_t *word, uint32_t value, uint64_t deadline);
SUPPORT uint32_t support_futex_wake(volatile uint32_t *word, uint32_t most);
/* A number below 65536, the next of the thread. */
SUPPORT uint32_t support_random(void);
SUPPORT bool support_try_lock(volatile uint32_t *lock);
SUPPORT bool support_lock_awaited(volatile uint32_t *lock, uint64_t deadline);
SUPPORT bool support_lock_until(volatile uint32_t *lock, uint64_t deadline);
SUPPORT void support_lock(volatile uint32_t *lock);
SUPPORT void support_unlock(volatile uint32_t *lock);

/* locks.c */
/* As pthread_mutex_lock, of a thread that comes from waiting for a condition. */
SUPPORT int support_mutex_lock_after_wait(pthread_mutex_t *mutex);

/* time.c */
struct timespec;
/* Nanoseconds of simulated time at which this clock shows this time; at most 2^63. */
SUPPORT uint64_t support_deadline(int clock, const struct timespec *at);
SUPPORT bool support_timespec_is_valid(const struct timespec *at);
SUPPORT void support_sleep_until(uint64_t deadline);

/* keys.c */
/* What a thread has: values by key, and objects of C++ to be destroyed at its end. */
struct support_keys {
    struct support_value *values;
    struct support_at_end *at_end;
};
SUPPORT struct support_keys *support_keys_of_thread(void);
SUPPORT void support_objects_finish(void);
SUPPORT void support_keys_finish(void);

/* files.c */
/* Refuses to read from what may keep a thread waiting: a standard input that is not a file. */
SUPPORT void support_check_input(int file);

#endif
