/* The threads of C11: other names for those of POSIX. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

static int result_of(int error)
{
    switch (error) {
    case 0:
        return thrd_success;
    case ENOMEM:
        return thrd_nomem;
    case EBUSY:
        return thrd_busy;
    case ETIMEDOUT:
        return thrd_timedout;
    default:
        return thrd_error;
    }
}

/* ---- threads ---- */

struct beginning {
    thrd_start_t start;
    void *argument;
};

static void *begin(void *memory)
{
    struct beginning b = *(struct beginning *)memory;
    free(memory);
    return (void *)(intptr_t)b.start(b.argument);
}

int thrd_create(thrd_t *thread, thrd_start_t start, void *argument)
{
    struct beginning *b = malloc(sizeof *b);
    if (b == NULL)
        return thrd_nomem;
    *b = (struct beginning){start, argument};
    int error = pthread_create(thread, NULL, begin, b);
    if (error != 0)
        free(b);
    return error == EAGAIN ? thrd_nomem : result_of(error);
}

int thrd_join(thrd_t thread, int *result)
{
    void *value;
    int error = pthread_join(thread, &value);
    if (error == 0 && result != NULL)
        *result = (int)(intptr_t)value;
    return result_of(error);
}

int thrd_detach(thrd_t thread)
{
    return result_of(pthread_detach(thread));
}

void thrd_exit(int result)
{
    pthread_exit((void *)(intptr_t)result);
}

thrd_t thrd_current(void)
{
    return pthread_self();
}

int thrd_equal(thrd_t a, thrd_t b)
{
    return a == b;
}

int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    return nanosleep(time, left) == 0 ? 0 : -2;
}

void thrd_yield(void)
{
    sw_yield();
}

void call_once(once_flag *once, void (*run)(void))
{
    pthread_once((pthread_once_t *)once, run);
}

/* ---- mutexes ---- */

int mtx_init(mtx_t *mutex, int kind)
{
    int attributes = (kind & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL;
    pthread_mutex_init((pthread_mutex_t *)mutex, (pthread_mutexattr_t *)&attributes);
    return thrd_success;
}

void mtx_destroy(mtx_t *mutex)
{
    pthread_mutex_destroy((pthread_mutex_t *)mutex);
}

int mtx_lock(mtx_t *mutex)
{
    return result_of(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

int mtx_trylock(mtx_t *mutex)
{
    return result_of(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict at)
{
    return result_of(pthread_mutex_timedlock((pthread_mutex_t *)mutex, at));
}

int mtx_unlock(mtx_t *mutex)
{
    return result_of(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

/* ---- conditions ---- */

int cnd_init(cnd_t *condition)
{
    return result_of(pthread_cond_init((pthread_cond_t *)condition, NULL));
}

void cnd_destroy(cnd_t *condition)
{
    pthread_cond_destroy((pthread_cond_t *)condition);
}

int cnd_signal(cnd_t *condition)
{
    return result_of(pthread_cond_signal((pthread_cond_t *)condition));
}

int cnd_broadcast(cnd_t *condition)
{
    return result_of(pthread_cond_broadcast((pthread_cond_t *)condition));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    return result_of(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict at)
{
    return result_of(
        pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, at));
}

/* ---- what a thread has of its own ---- */

int tss_create(tss_t *key, tss_dtor_t destructor)
{
    return result_of(pthread_key_create(key, destructor));
}

void tss_delete(tss_t key)
{
    pthread_key_delete(key);
}

void *tss_get(tss_t key)
{
    return pthread_getspecific(key);
}

int tss_set(tss_t key, void *value)
{
    return result_of(pthread_setspecific(key, value));
}
