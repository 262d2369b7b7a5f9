/* System calls: those that a program makes by syscall(), and those that it makes by the
 * instruction, which come to sw_syscall. Waiting and waking by futex, as std::atomic and many locks
 * do it, would put the one thread of the system to sleep: the machine does both. */
#include "support.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long futex(long a, long operation, long value, long d, long e, long f)
{
    volatile uint32_t *word = (volatile uint32_t *)a;
    const struct timespec *at = (const struct timespec *)d;
    int clock = operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    uint64_t deadline = SUPPORT_NEVER;
    (void)e;
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
        /* Its time is from now on, that of the other is of the clock. */
        if (at != NULL)
            deadline = sw_nanoseconds() + (uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec;
        return support_futex_wait(word, (uint32_t)value, deadline);
    case FUTEX_WAIT_BITSET:
        if (at != NULL)
            deadline = support_deadline(clock, at);
        return support_futex_wait(word, (uint32_t)value, deadline);
    case FUTEX_WAKE_BITSET:
        /* Those that are not meant look again, as after any wake without a reason. */
        if ((uint32_t)f != FUTEX_BITSET_MATCH_ANY)
            value = SUPPORT_ALL;
        return support_futex_wake(word, (uint32_t)value);
    case FUTEX_WAKE:
        return support_futex_wake(word, (uint32_t)value);
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        if ((operation & FUTEX_CMD_MASK) == FUTEX_CMP_REQUEUE && *word != (uint32_t)f)
            return -EAGAIN;
        /* All of them look again: none needs to wait elsewhere. */
        return support_futex_wake(word, SUPPORT_ALL);
    default:
        support_refuse("futex: this operation");
    }
}

/* Calls that neither wait nor start anything, and that write at most to buffers of the caller. */
static bool is_harmless(long number)
{
    static const short harmless[] = {
        SYS_open,      SYS_openat,    SYS_close,     SYS_stat,       SYS_fstat,     SYS_lstat,
        SYS_newfstatat, SYS_lseek,    SYS_access,    SYS_faccessat,  SYS_getpid,    SYS_getppid,
        SYS_getuid,    SYS_geteuid,   SYS_getgid,    SYS_getegid,    SYS_truncate,
        SYS_mkdir,     SYS_mkdirat,   SYS_rmdir,     SYS_getcwd,     SYS_chdir,     SYS_uname,
        SYS_readlink,  SYS_readlinkat, SYS_fcntl,    SYS_dup,        SYS_dup2,      SYS_umask,
        SYS_chmod,     SYS_fchmod,    SYS_getdents64, SYS_statfs,    SYS_fstatfs,   SYS_fadvise64,
        SYS_sysinfo,   SYS_getrlimit, SYS_prlimit64, SYS_memfd_create, SYS_arch_prctl,
        SYS_flock,     SYS_statx,     SYS_pipe,      SYS_pipe2,
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (harmless[i] == number)
            return true;
    }
    return false;
}

/* Calls that would only tell the system what does not concern the machine. */
static bool is_ignored(long number)
{
    switch (number) {
    case SYS_madvise:
    case SYS_mlock:
    case SYS_munlock:
    case SYS_mbind:
    case SYS_set_mempolicy:
    case SYS_sched_setaffinity:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_set_robust_list:
    case SYS_prctl:
        return true;
    default:
        return false;
    }
}

static long minus_errno(long result)
{
    return result == -1 ? -errno : result;
}

/* Calls that a function here does; false if it is none of them. */
static bool own_call(long n, const long *a, long *result)
{
    switch (n) {
    case SYS_futex:
        *result = futex(a[0], a[1], a[2], a[3], a[4], a[5]);
        return true;
    case SYS_gettid:
        *result = gettid();
        return true;
    case SYS_getcpu:
        *result = getcpu((unsigned *)a[0], (unsigned *)a[1]);
        return true;
    case SYS_sched_yield:
        sw_yield();
        *result = 0;
        return true;
    case SYS_sched_getaffinity:
        *result = sched_getaffinity(0, (size_t)a[1], (cpu_set_t *)a[2]) == 0 ? a[1] : -EINVAL;
        return true;
    case SYS_clock_gettime:
        *result = clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
        return true;
    case SYS_nanosleep:
        *result = minus_errno(nanosleep((const struct timespec *)a[0], NULL));
        return true;
    case SYS_read:
        *result = minus_errno(read((int)a[0], (void *)a[1], (size_t)a[2]));
        return true;
    case SYS_pread64:
        *result = minus_errno(pread((int)a[0], (void *)a[1], (size_t)a[2], a[3]));
        return true;
    case SYS_write:
        *result = minus_errno(write((int)a[0], (const void *)a[1], (size_t)a[2]));
        return true;
    case SYS_pwrite64:
        *result = minus_errno(pwrite((int)a[0], (const void *)a[1], (size_t)a[2], a[3]));
        return true;
    case SYS_mmap:
        *result = sw_mmap((void *)a[0], (size_t)a[1], (int)a[2], (int)a[3], (int)a[4], a[5]);
        return true;
    case SYS_munmap:
        *result = sw_munmap((void *)a[0], (size_t)a[1]);
        return true;
    case SYS_msync:
        *result = sw_msync((void *)a[0], (size_t)a[1], (int)a[2]);
        return true;
    case SYS_mprotect:
        *result = sw_protect((void *)a[0], (size_t)a[1], (int)a[2]);
        return true;
    case SYS_ftruncate:
        *result = minus_errno(ftruncate((int)a[0], a[1]));
        return true;
    case SYS_fallocate:
        *result = minus_errno(fallocate((int)a[0], (int)a[1], a[2], a[3]));
        return true;
    case SYS_fsync:
    case SYS_fdatasync:
        *result = minus_errno(fsync((int)a[0]));
        return true;
    case SYS_syncfs:
        *result = minus_errno(syncfs((int)a[0]));
        return true;
    case SYS_sync:
        sync();
        *result = 0;
        return true;
    case SYS_unlink:
        *result = minus_errno(unlink((const char *)a[0]));
        return true;
    case SYS_unlinkat:
        *result = minus_errno(unlinkat((int)a[0], (const char *)a[1], (int)a[2]));
        return true;
    case SYS_rename:
        *result = minus_errno(rename((const char *)a[0], (const char *)a[1]));
        return true;
    case SYS_renameat:
    case SYS_renameat2:
        *result = minus_errno(renameat2((int)a[0], (const char *)a[1], (int)a[2],
                                        (const char *)a[3],
                                        n == SYS_renameat2 ? (unsigned)a[4] : 0));
        return true;
    case SYS_exit_group:
        _exit((int)a[0]);
    default:
        return false;
    }
}

/* Any other call is refused by its number. */
static _Noreturn void refuse_call(long number)
{
    static char name[32] = "system call ";
    char digits[24];
    int count = 0;
    for (unsigned long left = (unsigned long)number; count == 0 || left > 0; left /= 10)
        digits[count++] = (char)('0' + left % 10);
    char *at = name + 12;
    while (count > 0 && at < name + sizeof name - 1)
        *at++ = digits[--count];
    *at = 0;
    support_refuse(name);
}

/* A system call as the kernel does it, with -errno for a failure. */
long sw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    const long arguments[] = {a, b, c, d, e, f};
    long result;
    if (own_call(number, arguments, &result))
        return result;
    if (is_ignored(number))
        return 0;
    if (number == SYS_getrandom)
        return minus_errno(getrandom((void *)a, (size_t)b, (unsigned)c));
    if (!is_harmless(number))
        refuse_call(number);
    sw_work(SYSTEM_CALL_WORK);
    return HOST(minus_errno(REAL(syscall)(number, a, b, c, d, e, f)));
}

long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long result = sw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
