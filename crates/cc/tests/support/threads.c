/* Threads from start to end, what they have of their own, futexes and clocks. */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

TESTED(pthread_create);
TESTED(pthread_join);
TESTED(pthread_tryjoin_np);
TESTED(pthread_timedjoin_np);
TESTED(pthread_detach);
TESTED(pthread_exit);
TESTED(pthread_self);
TESTED(pthread_equal);
TESTED(pthread_attr_init);
TESTED(pthread_attr_setdetachstate);
TESTED(pthread_attr_setstacksize);
TESTED(pthread_attr_getstacksize);
TESTED(pthread_setname_np);
TESTED(pthread_getname_np);
TESTED(pthread_key_create);
TESTED(pthread_key_delete);
TESTED(pthread_setspecific);
TESTED(pthread_getspecific);
TESTED(pthread_once);
TESTED(thrd_create);
TESTED(thrd_join);
TESTED(mtx_init);
TESTED(mtx_lock);
TESTED(mtx_unlock);
TESTED(cnd_init);
TESTED(cnd_wait);
TESTED(cnd_broadcast);
TESTED(sysconf);
TESTED(get_nprocs);
TESTED(sched_getaffinity);
TESTED(sched_getcpu);
TESTED(syscall);
TESTED(clock_gettime);
TESTED(gettimeofday);
TESTED(time);
TESTED(nanosleep);
TESTED(usleep);
TESTED(clock_nanosleep);
TESTED(getrandom);
extern void t___pthread_register_cancel(__pthread_unwind_buf_t *);
extern void t___pthread_unregister_cancel(__pthread_unwind_buf_t *);
extern void t___pthread_unwind_next(__pthread_unwind_buf_t *);
extern int t___cxa_guard_acquire(uint64_t *);
extern void t___cxa_guard_release(uint64_t *);
extern void t___cxa_guard_abort(uint64_t *);
extern int t___cxa_thread_atexit(void (*)(void *), void *, void *);

/* ---- start and end ---- */

static void *add_one(void *argument)
{
    CHECK(t_pthread_self() != 0);
    errno = 5;
    for (int i = 0; i < 10; i++)
        sched_yield();
    CHECK(errno == 5);
    return (char *)argument + 1;
}

static void *join_self(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)t_pthread_join(t_pthread_self(), NULL);
}

static char ends[16];
static volatile uint64_t gate, passed;

static void *pass_gate(void *argument)
{
    while (gate == 0)
        sched_yield();
    __atomic_fetch_add(&passed, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void joins(void)
{
    pthread_t thread;
    void *result;
    for (uintptr_t i = 0; i < 200; i++) {
        CHECK(t_pthread_create(&thread, NULL, add_one, (void *)i) == 0);
        CHECK(t_pthread_join(thread, &result) == 0 && result == (void *)(i + 1));
    }
    CHECK(t_pthread_create(&thread, NULL, join_self, NULL) == 0);
    CHECK(t_pthread_join(thread, &result) == 0 && result == (void *)EDEADLK);
    CHECK(t_pthread_join(t_pthread_self(), NULL) == EDEADLK);
    CHECK(t_pthread_create(&thread, NULL, pass_gate, ends) == 0);
    struct timespec past = {0, 0};
    CHECK(t_pthread_tryjoin_np(thread, &result) == EBUSY);
    CHECK(t_pthread_timedjoin_np(thread, &result, &past) == ETIMEDOUT);
    gate = 1;
    CHECK(t_pthread_join(thread, &result) == 0 && result == ends);
}

static void detached_and_too_many(void)
{
    pthread_attr_t attributes;
    pthread_t threads[64];
    t_pthread_attr_init(&attributes);
    t_pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    size_t bytes;
    CHECK(t_pthread_attr_setstacksize(&attributes, 65536) == 0);
    CHECK(t_pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes == 65536);
    gate = 0;
    passed = 0;
    uint64_t started = 0;
    int error;
    while (threads_left() > 0)
        sched_yield();
    while ((error = t_pthread_create(&threads[started], started % 2 ? &attributes : NULL, pass_gate,
                                     NULL)) == 0) {
        if (started % 2 == 0)
            CHECK(t_pthread_detach(threads[started]) == 0);
        started++;
    }
    CHECK(error == EAGAIN && started == (uint64_t)t_get_nprocs() - 1);
    gate = 1;
    while (passed < started)
        sched_yield();
}

/* ---- ends: cleanup handlers, keys, objects of C++ ---- */

static void note(void *letter)
{
    strncat(ends, letter, 1);
}

/* What pthread_cleanup_push expands to, with our functions. */
static void *exit_through_cleanups(void *argument)
{
    __pthread_unwind_buf_t outer, inner;
    if (__sigsetjmp_cancel(outer.__cancel_jmp_buf, 0) != 0) {
        note("o");
        t___pthread_unwind_next(&outer);
    }
    t___pthread_register_cancel(&outer);
    if (__sigsetjmp_cancel(inner.__cancel_jmp_buf, 0) != 0) {
        note("i");
        t___pthread_unwind_next(&inner);
    }
    t___pthread_register_cancel(&inner);
    CHECK(t_pthread_setspecific(*(pthread_key_t *)argument, "k") == 0);
    t___cxa_thread_atexit(note, (void *)"1", NULL);
    t___cxa_thread_atexit(note, (void *)"2", NULL);
    t_pthread_exit("result");
    return NULL;
}

static void at_the_end(void)
{
    pthread_key_t key;
    pthread_t thread;
    void *result;
    CHECK(t_pthread_key_create(&key, note) == 0);
    CHECK(t_pthread_getspecific(key) == NULL);
    CHECK(t_pthread_setspecific(key, "m") == 0);
    CHECK(t_pthread_create(&thread, NULL, exit_through_cleanups, &key) == 0);
    CHECK(t_pthread_join(thread, &result) == 0 && strcmp(result, "result") == 0);
    CHECK(strcmp(ends, "io21k") == 0);
    CHECK(strcmp(t_pthread_getspecific(key), "m") == 0);
    CHECK(t_pthread_key_delete(key) == 0);
    pthread_key_t again;
    CHECK(t_pthread_key_create(&again, NULL) == 0);
    CHECK(t_pthread_getspecific(again) == NULL);
    char name[16];
    CHECK(t_pthread_setname_np(t_pthread_self(), "a name") == 0);
    CHECK(t_pthread_getname_np(t_pthread_self(), name, sizeof name) == 0);
    CHECK(strcmp(name, "a name") == 0);
}

/* ---- once ---- */

static struct {
    pthread_once_t first, second;
} onces[50];
static uint64_t guards[50];
static int runs, guard_runs;

static void run_slowly(void)
{
    int seen = runs;
    sched_yield();
    runs = seen + 1;
}

static void *race_to_be_first(void *argument)
{
    for (int i = 0; i < 50; i++) {
        t_pthread_once(&onces[i].first, run_slowly);
        CHECK(runs >= 2 * i + 1);
        t_pthread_once(&onces[i].second, run_slowly);
        CHECK(runs >= 2 * i + 2);
        while (t___cxa_guard_acquire(&guards[i])) {
            /* The first attempt of each thrower fails. */
            if (i % 2 == 0 && guard_runs % 2 == 0) {
                guard_runs++;
                t___cxa_guard_abort(&guards[i]);
                continue;
            }
            guard_runs++;
            t___cxa_guard_release(&guards[i]);
        }
        CHECK(*(char *)&guards[i] == 1);
    }
    return argument;
}

/* ---- C11 ---- */

static mtx_t mutex;
static cnd_t condition;
static int ready;

static int wait_until_ready(void *argument)
{
    t_mtx_lock(&mutex);
    while (!ready)
        t_cnd_wait(&condition, &mutex);
    t_mtx_unlock(&mutex);
    return *(int *)argument;
}

static void c11(void)
{
    thrd_t thread;
    int value = -7;
    int result = 0;
    CHECK(t_mtx_init(&mutex, mtx_plain) == thrd_success);
    CHECK(t_cnd_init(&condition) == thrd_success);
    CHECK(t_thrd_create(&thread, wait_until_ready, &value) == thrd_success);
    t_mtx_lock(&mutex);
    ready = 1;
    t_cnd_broadcast(&condition);
    t_mtx_unlock(&mutex);
    CHECK(t_thrd_join(thread, &result) == thrd_success && result == -7);
}

static void all_race(void *(*run)(void *), int count)
{
    pthread_t threads[16];
    for (int i = 0; i < count; i++)
        CHECK(t_pthread_create(&threads[i], NULL, run, NULL) == 0);
    for (int i = 0; i < count; i++)
        CHECK(t_pthread_join(threads[i], NULL) == 0);
}

void test_threads(void)
{
    joins();
    detached_and_too_many();
    at_the_end();
    all_race(race_to_be_first, 8);
    CHECK(runs == 100);
    c11();
    cpu_set_t set;
    CHECK(t_sysconf(_SC_NPROCESSORS_ONLN) == t_get_nprocs());
    CHECK(t_sysconf(_SC_PAGESIZE) == 4096);
    CHECK(t_sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == t_get_nprocs());
    CHECK(t_sched_getcpu() == 0);
}

/* ---- a lock by futex, as Drepper's second one ---- */

static uint32_t futex_lock;
static uint64_t futex_count;

static void *lock_by_futex(void *argument)
{
    for (int i = 0; i < 5000; i++) {
        uint32_t free_value = 0;
        if (!__atomic_compare_exchange_n(&futex_lock, &free_value, 1, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST)) {
            while (__atomic_exchange_n(&futex_lock, 2, __ATOMIC_SEQ_CST) != 0)
                t_syscall(SYS_futex, &futex_lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
        }
        uint64_t seen = futex_count;
        if (i % 64 == 0)
            sched_yield();
        futex_count = seen + 1;
        if (__atomic_exchange_n(&futex_lock, 0, __ATOMIC_SEQ_CST) == 2)
            t_syscall(SYS_futex, &futex_lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    return argument;
}

static int refused_call(int count, char **arguments, char **environment)
{
    (void)count, (void)arguments, (void)environment;
    return (int)t_syscall(SYS_ptrace, 0, 0, 0, 0);
}

void test_futex(void)
{
    all_race(lock_by_futex, 8);
    CHECK(futex_count == 40000);
    uint32_t word = 3;
    struct timespec soon = {0, 200000};
    CHECK(t_syscall(SYS_futex, &word, FUTEX_WAIT, 4, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(t_syscall(SYS_futex, &word, FUTEX_WAIT, 3, &soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(t_syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
    CHECK(t_syscall(SYS_getpid) == getpid());
    CHECK(t_syscall(SYS_gettid) == getpid());
    CHECK(t_syscall(SYS_close, -1) == -1 && errno == EBADF);
    char output[256];
    CHECK(run_program(refused_call, output, sizeof output) == REFUSED);
    CHECK(strcmp(output, "unsupported: system call 101\n") == 0);
}

void test_time(void)
{
    struct timespec start, now, wrong = {0, -1}, short_time = {0, 2000000};
    struct timeval day;
    t_clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(t_nanosleep(&short_time, NULL) == 0);
    CHECK(t_usleep(1000) == 0);
    t_clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec >= 3000000);
    CHECK(t_nanosleep(&wrong, NULL) == -1 && errno == EINVAL);
    start.tv_sec = 0;
    CHECK(t_clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &start, NULL) == 0);
    /* The first minutes of 2020. */
    time_t at = t_time(NULL);
    CHECK(at >= 1577836800 && at < 1577836800 + 600);
    CHECK(t_gettimeofday(&day, NULL) == 0 && day.tv_sec >= at && day.tv_sec <= at + 1);
    uint64_t numbers[3] = {0};
    CHECK(t_getrandom(numbers, 20, 0) == 20);
    CHECK(numbers[0] != numbers[1] && numbers[2] >> 32 == 0);
}
