/* Locks, conditions, barriers and semaphores under many real threads. */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

TESTED(pthread_create);
TESTED(pthread_join);
TESTED(pthread_mutex_init);
TESTED(pthread_mutex_destroy);
TESTED(pthread_mutex_lock);
TESTED(pthread_mutex_trylock);
TESTED(pthread_mutex_timedlock);
TESTED(pthread_mutex_unlock);
TESTED(pthread_mutexattr_init);
TESTED(pthread_mutexattr_settype);
TESTED(pthread_spin_init);
TESTED(pthread_spin_lock);
TESTED(pthread_spin_unlock);
TESTED(pthread_rwlock_rdlock);
TESTED(pthread_rwlock_wrlock);
TESTED(pthread_rwlock_tryrdlock);
TESTED(pthread_rwlock_trywrlock);
TESTED(pthread_rwlock_timedwrlock);
TESTED(pthread_rwlock_unlock);
TESTED(pthread_cond_wait);
TESTED(pthread_cond_timedwait);
TESTED(pthread_cond_clockwait);
TESTED(pthread_cond_signal);
TESTED(pthread_cond_broadcast);
TESTED(pthread_cond_init);
TESTED(pthread_cond_destroy);
TESTED(pthread_barrier_init);
TESTED(pthread_barrier_wait);
TESTED(pthread_barrier_destroy);
TESTED(sem_init);
TESTED(sem_wait);
TESTED(sem_trywait);
TESTED(sem_timedwait);
TESTED(sem_post);
TESTED(sem_getvalue);
TESTED(clock_gettime);

#define THREADS 8

static void run_all(void *(*run)(void *), uintptr_t count)
{
    pthread_t threads[32];
    for (uintptr_t i = 0; i < count; i++)
        CHECK(t_pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (uintptr_t i = 0; i < count; i++)
        CHECK(t_pthread_join(threads[i], NULL) == 0);
}

static struct timespec in_microseconds(int clock, long microseconds)
{
    struct timespec at;
    t_clock_gettime(clock, &at);
    at.tv_nsec += microseconds * 1000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* ---- mutual exclusion ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
    pthread_spinlock_t first, second;
} __attribute__((aligned(8))) spin;
static uint64_t counts[6];

/* Two steps, so that one that comes between them is seen. */
static void count(int which)
{
    volatile uint64_t *counter = &counts[which];
    uint64_t seen = *counter;
    if (seen % 16 == 0)
        sched_yield();
    *counter = seen + 1;
}

static void *exclude(void *argument)
{
    (void)argument;
    for (int i = 0; i < 3000; i++) {
        t_pthread_mutex_lock(&mutex);
        count(0);
        t_pthread_mutex_unlock(&mutex);
        t_pthread_mutex_lock(&recursive);
        t_pthread_mutex_lock(&recursive);
        CHECK(t_pthread_mutex_trylock(&recursive) == 0);
        t_pthread_mutex_unlock(&recursive);
        t_pthread_mutex_unlock(&recursive);
        count(1);
        t_pthread_mutex_unlock(&recursive);
        while (t_pthread_mutex_trylock(&checked) != 0)
            sched_yield();
        count(2);
        t_pthread_mutex_unlock(&checked);
        t_pthread_spin_lock(&spin.first);
        count(3);
        t_pthread_spin_unlock(&spin.first);
        t_pthread_spin_lock(&spin.second);
        count(4);
        t_pthread_spin_unlock(&spin.second);
        t_pthread_rwlock_wrlock(&rwlock);
        count(5);
        t_pthread_rwlock_unlock(&rwlock);
        t_pthread_rwlock_rdlock(&rwlock);
        uint64_t seen = counts[5];
        CHECK(t_pthread_rwlock_trywrlock(&rwlock) == EBUSY);
        CHECK(t_pthread_rwlock_tryrdlock(&rwlock) == 0);
        CHECK(counts[5] == seen);
        t_pthread_rwlock_unlock(&rwlock);
        t_pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}

static void *other_thread(void *argument)
{
    (void)argument;
    struct timespec soon = in_microseconds(CLOCK_REALTIME, 300);
    CHECK(t_pthread_mutex_trylock(&checked) == EBUSY);
    CHECK(t_pthread_mutex_timedlock(&checked, &soon) == ETIMEDOUT);
    CHECK(t_pthread_mutex_unlock(&checked) == EPERM);
    CHECK(t_pthread_mutex_trylock(&recursive) == EBUSY);
    CHECK(t_pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
    CHECK(t_pthread_rwlock_timedwrlock(&rwlock, &soon) == ETIMEDOUT);
    return NULL;
}

/* ---- without a system call, as long as nobody waits ---- */

static void nobody_waits(void)
{
    static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t *all[] = {&mutex, &recursive, &adaptive};
    sem_t semaphore;
    futex_waits = futex_wakes = 0;
    CHECK(t_sem_init(&semaphore, 0, 1) == 0);
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 3; j++)
            CHECK(t_pthread_mutex_lock(all[j]) == 0);
        t_pthread_cond_signal(&condition);
        t_pthread_cond_broadcast(&condition);
        for (int j = 0; j < 3; j++)
            CHECK(t_pthread_mutex_unlock(all[j]) == 0);
        CHECK(t_pthread_rwlock_wrlock(&rwlock) == 0 && t_pthread_rwlock_unlock(&rwlock) == 0);
        CHECK(t_pthread_rwlock_rdlock(&rwlock) == 0 && t_pthread_rwlock_unlock(&rwlock) == 0);
        CHECK(t_sem_wait(&semaphore) == 0 && t_sem_post(&semaphore) == 0);
    }
    CHECK(futex_waits == 0 && futex_wakes == 0);
}

void test_locks(void)
{
    t_pthread_spin_init(&spin.first, 0);
    t_pthread_spin_init(&spin.second, 0);
    nobody_waits();
    run_all(exclude, THREADS);
    for (int i = 0; i < 6; i++)
        CHECK(counts[i] == 3000 * THREADS);
    CHECK(t_pthread_mutex_lock(&checked) == 0);
    CHECK(t_pthread_mutex_lock(&checked) == EDEADLK);
    CHECK(t_pthread_mutex_trylock(&checked) == EBUSY);
    CHECK(t_pthread_mutex_lock(&recursive) == 0);
    CHECK(t_pthread_rwlock_wrlock(&rwlock) == 0);
    CHECK(t_pthread_rwlock_rdlock(&rwlock) == EDEADLK);
    run_all(other_thread, 1);
    CHECK(t_pthread_mutex_destroy(&checked) == EBUSY);
    CHECK(t_pthread_mutex_unlock(&checked) == 0);
    CHECK(t_pthread_mutex_unlock(&checked) == EPERM);
    CHECK(t_pthread_mutex_destroy(&checked) == 0);
    pthread_mutexattr_t attributes;
    pthread_mutex_t made;
    t_pthread_mutexattr_init(&attributes);
    CHECK(t_pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0);
    memset(&made, 0xff, sizeof made);
    t_pthread_mutex_init(&made, &attributes);
    CHECK(t_pthread_mutex_lock(&made) == 0 && t_pthread_mutex_lock(&made) == 0);
}

/* ---- a queue of bounded length, by two conditions ---- */

#define ITEMS 20000
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static unsigned queued, put_items, taken_items;

static void *producer(void *argument)
{
    (void)argument;
    for (int i = 0; i < ITEMS / 4; i++) {
        t_pthread_mutex_lock(&queue_lock);
        while (queued == 3)
            t_pthread_cond_wait(&not_full, &queue_lock);
        queued++;
        put_items++;
        /* One wakes one: a lost wakeup stops the test. */
        t_pthread_cond_signal(&not_empty);
        t_pthread_mutex_unlock(&queue_lock);
    }
    return NULL;
}

/* Some of them give up waiting after a short time and come again. */
static void *consumer(void *number)
{
    for (int i = 0; i < ITEMS / 4; i++) {
        t_pthread_mutex_lock(&queue_lock);
        while (queued == 0) {
            if ((uintptr_t)number % 2 == 0) {
                t_pthread_cond_wait(&not_empty, &queue_lock);
                continue;
            }
            struct timespec soon = in_microseconds(CLOCK_REALTIME, 20);
            int error = t_pthread_cond_timedwait(&not_empty, &queue_lock, &soon);
            CHECK(error == 0 || error == ETIMEDOUT);
        }
        queued--;
        taken_items++;
        t_pthread_cond_signal(&not_full);
        t_pthread_mutex_unlock(&queue_lock);
    }
    return NULL;
}

static void *queue_thread(void *number)
{
    return (uintptr_t)number < 4 ? producer(number) : consumer(number);
}

/* ---- a signal without a loop around the wait, which POSIX does not promise but programs use ----
 * */

static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static unsigned woken, waiting;

static void *wait_once(void *argument)
{
    (void)argument;
    t_pthread_mutex_lock(&queue_lock);
    waiting++;
    CHECK(t_pthread_cond_wait(&turn, &queue_lock) == 0);
    woken++;
    t_pthread_mutex_unlock(&queue_lock);
    return NULL;
}

static unsigned under_lock(unsigned *value)
{
    t_pthread_mutex_lock(&queue_lock);
    unsigned seen = *value;
    t_pthread_mutex_unlock(&queue_lock);
    return seen;
}

static void one_signal_wakes_one(void)
{
    pthread_t threads[5];
    for (int i = 0; i < 5; i++)
        t_pthread_create(&threads[i], NULL, wait_once, NULL);
    while (under_lock(&waiting) < 5)
        sched_yield();
    for (unsigned i = 1; i <= 3; i++) {
        t_pthread_cond_signal(&turn);
        while (under_lock(&woken) < i)
            sched_yield();
        for (int j = 0; j < 50; j++)
            sched_yield();
        CHECK(under_lock(&woken) == i);
    }
    t_pthread_cond_broadcast(&turn);
    for (int i = 0; i < 5; i++)
        t_pthread_join(threads[i], NULL);
    CHECK(woken == 5);
    CHECK(t_pthread_cond_destroy(&turn) == 0);
}

/* ---- a wait that times out does not use up the signal that comes later ---- */

static pthread_cond_t later = PTHREAD_COND_INITIALIZER;
static unsigned timed_out, told, waits_for_it;

static void *give_up(void *argument)
{
    struct timespec soon = in_microseconds(CLOCK_REALTIME, 20000);
    t_pthread_mutex_lock(&queue_lock);
    waits_for_it++;
    CHECK(t_pthread_cond_timedwait(&later, &queue_lock, &soon) == ETIMEDOUT);
    timed_out = 1;
    t_pthread_mutex_unlock(&queue_lock);
    return argument;
}

static void *wait_to_be_told(void *argument)
{
    t_pthread_mutex_lock(&queue_lock);
    waits_for_it++;
    while (!told)
        t_pthread_cond_wait(&later, &queue_lock);
    t_pthread_mutex_unlock(&queue_lock);
    return argument;
}

static void a_timeout_takes_no_signal(void)
{
    pthread_t first, second;
    t_pthread_create(&first, NULL, give_up, NULL);
    while (under_lock(&waits_for_it) < 1)
        sched_yield();
    t_pthread_create(&second, NULL, wait_to_be_told, NULL);
    while (under_lock(&waits_for_it) < 2 || !under_lock(&timed_out))
        sched_yield();
    t_pthread_mutex_lock(&queue_lock);
    told = 1;
    t_pthread_cond_signal(&later);
    t_pthread_mutex_unlock(&queue_lock);
    t_pthread_join(first, NULL);
    t_pthread_join(second, NULL);
}

static void waits_end_in_time(void)
{
    struct timespec past = {0, 0};
    struct timespec wrong = {0, 1000000000};
    struct timespec soon = in_microseconds(CLOCK_MONOTONIC, 2000);
    t_pthread_mutex_lock(&queue_lock);
    CHECK(t_pthread_cond_timedwait(&not_empty, &queue_lock, &past) == ETIMEDOUT);
    CHECK(t_pthread_cond_timedwait(&not_empty, &queue_lock, &wrong) == EINVAL);
    CHECK(t_pthread_cond_clockwait(&not_empty, &queue_lock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    struct timespec now = in_microseconds(CLOCK_MONOTONIC, 0);
    CHECK(now.tv_sec > soon.tv_sec ||
          (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
    t_pthread_mutex_unlock(&queue_lock);
}

/* ---- barriers ---- */

static pthread_barrier_t barrier;
static uint64_t phase_counts[1001];
static uint64_t serials;

static void *phases(void *argument)
{
    (void)argument;
    for (int phase = 0; phase < 1000; phase++) {
        __atomic_fetch_add(&phase_counts[phase], 1, __ATOMIC_SEQ_CST);
        int result = t_pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result != 0)
            __atomic_fetch_add(&serials, 1, __ATOMIC_SEQ_CST);
        CHECK(phase_counts[phase] == 6);
        CHECK(phase_counts[phase + 1] <= 6);
    }
    return NULL;
}

/* ---- semaphores ---- */

static sem_t items, room;

static void *post_and_wait(void *number)
{
    for (int i = 0; i < 5000; i++) {
        if ((uintptr_t)number % 2 == 0) {
            CHECK(t_sem_wait(&room) == 0);
            CHECK(t_sem_post(&items) == 0);
        } else {
            CHECK(t_sem_wait(&items) == 0);
            CHECK(t_sem_post(&room) == 0);
        }
    }
    return NULL;
}

static void semaphores(void)
{
    int value;
    struct timespec soon = in_microseconds(CLOCK_REALTIME, 300);
    CHECK(t_sem_init(&items, 0, 0) == 0 && t_sem_init(&room, 0, 3) == 0);
    run_all(post_and_wait, THREADS);
    CHECK(t_sem_getvalue(&room, &value) == 0 && value == 3);
    CHECK(t_sem_trywait(&items) == -1 && errno == EAGAIN);
    CHECK(t_sem_timedwait(&items, &soon) == -1 && errno == ETIMEDOUT);
    CHECK(t_sem_timedwait(&room, &soon) == 0);
}

void test_conditions(void)
{
    run_all(queue_thread, 8);
    CHECK(put_items == ITEMS && taken_items == ITEMS && queued == 0);
    one_signal_wakes_one();
    a_timeout_takes_no_signal();
    waits_end_in_time();
    CHECK(t_pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(t_pthread_barrier_init(&barrier, NULL, 6) == 0);
    run_all(phases, 6);
    CHECK(serials == 1000);
    CHECK(t_pthread_barrier_destroy(&barrier) == 0);
    semaphores();
}
