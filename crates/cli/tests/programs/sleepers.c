/* Threads that wait for each other in one way, and change a counter of the pool in turns. The lock
 * "own" is made of futexes as a program may do it; its flaws lose a thread that sleeps. */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SOUND, WAKES_EARLY, TAKES_AS_IF_NOBODY_WAITED, SLEEPS_WHATEVER_IT_IS };

static long flaw, threads;
static const char *way;
static volatile uint64_t *counter;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore, nothing;
static long turn;
static uint32_t own;

static uint32_t gate;
static long asleep, woken;

static void sleep_on(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static long wake_on(uint32_t *word)
{
    return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint32_t change(uint32_t from, uint32_t to)
{
    __atomic_compare_exchange_n(&own, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return from;
}

static void take_own(void)
{
    uint32_t found = change(0, 1);
    while (found != 0) {
        if (found == 2 || change(1, 2) != 0)
            sleep_on(&own, flaw == SLEEPS_WHATEVER_IT_IS ? *(volatile uint32_t *)&own : 2);
        found = change(0, flaw == TAKES_AS_IF_NOBODY_WAITED ? 1 : 2);
    }
}

static void give_own(void)
{
    if (flaw == WAKES_EARLY) {
        if (*(volatile uint32_t *)&own == 2)
            wake_on(&own);
        __atomic_exchange_n(&own, 0, __ATOMIC_SEQ_CST);
    } else if (__atomic_exchange_n(&own, 0, __ATOMIC_SEQ_CST) == 2) {
        wake_on(&own);
    }
}

static void step(void)
{
    *counter = *counter + 1;
}

static void in_turn(long number)
{
    pthread_mutex_lock(&mutex);
    while (turn != number)
        pthread_cond_wait(&condition, &mutex);
    step();
    turn++;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
}

/* The first thread gives each of the others a signal when that waits; nobody looks again after its
 * wait. */
static void signalled(long number)
{
    pthread_mutex_lock(&mutex);
    step();
    if (number == 0) {
        for (long given = 0; given < threads - 1; given++) {
            while (turn <= given)
                pthread_cond_wait(&arrived, &mutex);
            pthread_cond_signal(&condition);
        }
    } else {
        turn++;
        pthread_cond_signal(&arrived);
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

/* What nobody gives is waited for until the deadline, and not beyond it by much. */
static void with_deadline(void)
{
    struct timespec at, now;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec = (at.tv_nsec + 20000) % 1000000000;
    at.tv_sec += at.tv_nsec < 20000;
    if (sem_timedwait(&nothing, &at) == 0)
        abort();
    clock_gettime(CLOCK_REALTIME, &now);
    long late = (now.tv_sec - at.tv_sec) * 1000000000 + now.tv_nsec - at.tv_nsec;
    if (late < 0 || late > 1000000000)
        abort();
    at.tv_sec += 2;
    if (pthread_mutex_timedlock(&mutex, &at) != 0)
        abort();
    step();
    pthread_mutex_unlock(&mutex);
}

static void wait_for(long *count, long least)
{
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < least)
        sched_yield();
}

static void *be_woken_in_order(void *number)
{
    __atomic_fetch_add(&asleep, 1, __ATOMIC_SEQ_CST);
    sleep_on(&gate, 0);
    if (__atomic_fetch_add(&woken, 1, __ATOMIC_SEQ_CST) != (long)number)
        abort();
    return NULL;
}

/* Threads that fall asleep one after the other are woken one by one, who came first before. */
static int in_order(void)
{
    pthread_t all[64];
    for (long n = 0; n < threads - 1; n++) {
        pthread_create(&all[n], NULL, be_woken_in_order, (void *)n);
        wait_for(&asleep, n + 1);
        usleep(2000);
    }
    for (long n = 0; n < threads - 1; n++) {
        if (wake_on(&gate) != 1)
            return 1;
        wait_for(&woken, n + 1);
        usleep(2000);
        if (woken != n + 1)
            return 1;
    }
    for (long n = 0; n < threads - 1; n++)
        pthread_join(all[n], NULL);
    return wake_on(&gate) != 0;
}

static void *run(void *argument)
{
    long number = (long)argument;
    if (!strcmp(way, "mutex")) {
        pthread_mutex_lock(&mutex);
        step();
        pthread_mutex_unlock(&mutex);
    } else if (!strcmp(way, "condition")) {
        in_turn(number);
    } else if (!strcmp(way, "signal")) {
        signalled(number);
    } else if (!strcmp(way, "barrier")) {
        for (long n = 0; n < threads; n++) {
            if (n == number)
                step();
            pthread_barrier_wait(&barrier);
        }
    } else if (!strcmp(way, "semaphore")) {
        sem_wait(&semaphore);
        step();
        sem_post(&semaphore);
    } else if (!strcmp(way, "rwlock")) {
        pthread_rwlock_wrlock(&rwlock);
        step();
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
    } else if (!strcmp(way, "deadline")) {
        with_deadline();
    } else {
        take_own();
        step();
        give_own();
    }
    return NULL;
}

int main(int count, char **words)
{
    int file = count < 3 ? -1 : open(words[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    counter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    way = words[1];
    threads = count > 3 ? atol(words[3]) : 1;
    flaw = count > 4 ? atol(words[4]) : SOUND;
    if (!strcmp(way, "check"))
        return *counter > (uint64_t)threads;
    if (!strcmp(way, "order"))
        return in_order();
    pthread_t all[64];
    sem_init(&semaphore, 0, 1);
    sem_init(&nothing, 0, 0);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (long n = 1; n < threads; n++)
        pthread_create(&all[n], NULL, run, (void *)n);
    run((void *)0);
    for (long n = 1; n < threads; n++)
        pthread_join(all[n], NULL);
    return *counter != (uint64_t)threads;
}
