/* The clocks. They show simulated time from a fixed date on, so that the results of a program do
 * not depend on when it is run; and sleeping is waiting for them. */
#include "support.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ul
/* 2020-01-01 00:00:00 UTC, where clocks that show the date start. */
#define DATE (1577836800ul * SECOND)
/* Where clocks start that show the time since the machine was switched on: programs take 0 for
 * none. */
#define SWITCHED_ON (1000ul * SECOND)

/* What this clock shows when no time has passed. */
static uint64_t start_of(int clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
        return DATE;
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
        return 0;
    default:
        return SWITCHED_ON;
    }
}

bool support_timespec_is_valid(const struct timespec *at)
{
    return at->tv_nsec >= 0 && (uint64_t)at->tv_nsec < SECOND;
}

uint64_t support_deadline(int clock, const struct timespec *at)
{
    const uint64_t latest = 1ul << 63;
    if (at->tv_sec < 0)
        return 0;
    if ((uint64_t)at->tv_sec >= latest / SECOND)
        return latest;
    uint64_t shown = (uint64_t)at->tv_sec * SECOND + (uint64_t)at->tv_nsec;
    uint64_t start = start_of(clock);
    return shown < start ? 0 : shown - start;
}

void support_sleep_until(uint64_t deadline)
{
    volatile uint32_t nothing = 0;
    support_futex_wait(&nothing, 0, deadline);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    uint64_t shown = start_of(clock) + sw_nanoseconds();
    now->tv_sec = (time_t)(shown / SECOND);
    now->tv_nsec = (long)(shown % SECOND);
    return 0;
}

int clock_getres(clockid_t clock, struct timespec *resolution)
{
    (void)clock;
    if (resolution != NULL)
        *resolution = (struct timespec){.tv_nsec = 1};
    return 0;
}

int clock_settime(clockid_t clock, const struct timespec *at)
{
    (void)clock, (void)at;
    errno = EPERM;
    return -1;
}

int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC)
        return 0;
    clock_gettime(CLOCK_REALTIME, now);
    return base;
}

/* Some headers say that the first argument is never null. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    uint64_t shown = DATE + sw_nanoseconds();
    now->tv_sec = (time_t)(shown / SECOND);
    now->tv_usec = (suseconds_t)(shown % SECOND / 1000);
    return 0;
}

time_t time(time_t *now)
{
    time_t shown = (time_t)((DATE + sw_nanoseconds()) / SECOND);
    if (now != NULL)
        *now = shown;
    return shown;
}

clock_t clock(void)
{
    return (clock_t)(sw_nanoseconds() / (SECOND / CLOCKS_PER_SEC));
}

clock_t times(struct tms *used)
{
    clock_t ticks = (clock_t)(sw_nanoseconds() / (SECOND / 100));
    if (used != NULL)
        *used = (struct tms){.tms_utime = ticks};
    return ticks;
}

int getrusage(__rusage_who_t who, struct rusage *used)
{
    (void)who;
    uint64_t now = sw_nanoseconds();
    *used = (struct rusage){0};
    used->ru_utime.tv_sec = (time_t)(now / SECOND);
    used->ru_utime.tv_usec = (suseconds_t)(now % SECOND / 1000);
    return 0;
}

/* ---- sleeping ---- */

static int sleep_from(uint64_t from, const struct timespec *time)
{
    if (!support_timespec_is_valid(time) || time->tv_sec < 0)
        return EINVAL;
    support_sleep_until(from + (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_nsec);
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    (void)left;
    if ((flags & TIMER_ABSTIME) == 0)
        return sleep_from(sw_nanoseconds(), time);
    if (!support_timespec_is_valid(time))
        return EINVAL;
    support_sleep_until(support_deadline(clock, time));
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    int error = sleep_from(sw_nanoseconds(), time);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

int usleep(useconds_t microseconds)
{
    support_sleep_until(sw_nanoseconds() + microseconds * 1000ul);
    return 0;
}

unsigned sleep(unsigned seconds)
{
    support_sleep_until(sw_nanoseconds() + seconds * SECOND);
    return 0;
}

/* Waiting for no file at all is a way to sleep; for files it is refused. */
int select(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x,
           struct timeval *restrict limit)
{
    (void)r, (void)w, (void)x;
    if (count != 0 || limit == NULL)
        support_refuse("select");
    return usleep((useconds_t)limit->tv_sec * 1000000 + (useconds_t)limit->tv_usec);
}

/* Looking without waiting is no waiting for the outside. */
int poll(struct pollfd *files, nfds_t count, int milliseconds)
{
    if (milliseconds == 0)
        return HOST(REAL(poll)(files, count, 0));
    if (count != 0 || milliseconds < 0)
        support_refuse("poll");
    return usleep((useconds_t)milliseconds * 1000);
}
