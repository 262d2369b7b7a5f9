/* Threads of the program: fibers of the machine, one a core. A pthread_t is the address of a struct
 * thread here. The C library knows nothing of them, so every function that is given a pthread_t is
 * here; but each has the thread-local storage (errno, __thread) of a thread of the C library. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(__pthread_unwind_buf_t) - offsetof(__pthread_unwind_buf_t, __pad) >= 16,
               "the list of cleanup handlers is kept in the padding");

struct thread {
    /* DONE and DETACHED. */
    volatile uint32_t state;
    void *(*start)(void *);
    void *argument;
    void *result;
    /* Where pthread_cleanup_push is to be jumped to; each names the one outside it. */
    __pthread_unwind_buf_t *cleanups;
    struct support_keys keys;
    char name[16];
};
#define DONE 1u
#define DETACHED 2u

static struct thread main_thread = {.name = "main"};
/* By number. */
static struct thread *threads[SUPPORT_THREADS] = {&main_thread};
/* Threads that have not ended, beside the main one. */
static volatile uint64_t others;

static struct thread *of(pthread_t handle)
{
    return (struct thread *)handle;
}

static struct thread *self(void)
{
    return threads[sw_thread_self() % SUPPORT_THREADS];
}

struct support_keys *support_keys_of_thread(void)
{
    return &self()->keys;
}

/* ---- the start and the end ---- */

static _Noreturn void end_thread(struct thread *t)
{
    support_objects_finish();
    support_keys_finish();
    threads[sw_thread_self() % SUPPORT_THREADS] = NULL;
    __atomic_fetch_sub(&others, 1, __ATOMIC_SEQ_CST);
    /* The system wakes who joins when the thread is gone: nothing may take time from here on, as its
     * core is needed for the next one. Who joins may free it: the address is that of a queue. */
    sw_work(SYSTEM_CALL_WORK);
    uint32_t before = __atomic_fetch_or(&t->state, DONE, __ATOMIC_SEQ_CST);
    sw_futex_wake(&t->state, 1);
    if ((before & DETACHED) != 0)
        free(t);
    sw_thread_exit();
    __builtin_unreachable();
}

static void *run(void *thread)
{
    struct thread *t = thread;
    uint64_t number = sw_thread_self();
    if (number >= SUPPORT_THREADS)
        support_refuse("more than 1024 threads");
    threads[number] = t;
    t->result = t->start(t->argument);
    end_thread(t);
}

int pthread_create(pthread_t *restrict handle, const pthread_attr_t *restrict attributes,
                   void *(*start)(void *), void *restrict argument)
{
    struct thread *t = calloc(1, sizeof *t);
    if (t == NULL)
        return EAGAIN;
    t->start = start;
    t->argument = argument;
    if (attributes != NULL && *(const int *)attributes == PTHREAD_CREATE_DETACHED)
        t->state = DETACHED;
    *handle = (pthread_t)t;
    __atomic_fetch_add(&others, 1, __ATOMIC_SEQ_CST);
    if (sw_thread_start(run, t) == 0) {
        __atomic_fetch_sub(&others, 1, __ATOMIC_SEQ_CST);
        free(t);
        return EAGAIN;
    }
    return 0;
}

/* The end of the main thread is not that of the program, which ends with its last thread. */
static _Noreturn void end_main(void)
{
    support_objects_finish();
    support_keys_finish();
    __atomic_fetch_or(&main_thread.state, DONE, __ATOMIC_SEQ_CST);
    for (uint64_t left; (left = __atomic_load_n(&others, __ATOMIC_ACQUIRE)) != 0;)
        sw_wait_while(&others, left);
    exit(0);
}

/* Runs the cleanup handler that was pushed last; it calls __pthread_unwind_next for the next one.
 * Destructors of C++ objects on the stack are not run. */
static _Noreturn void unwind(struct thread *t)
{
    __pthread_unwind_buf_t *place = t->cleanups;
    if (place != NULL) {
        t->cleanups = place->__pad[0];
        /* It is the front of a jmp_buf, without the signals; the compiler would ask for all of it.
         * */
        struct __jmp_buf_tag *front = (struct __jmp_buf_tag *)place;
        __asm__("" : "+r"(front));
        longjmp(front, 1);
    }
    if (t == &main_thread)
        end_main();
    end_thread(t);
}

void pthread_exit(void *result)
{
    struct thread *t = self();
    t->result = result;
    unwind(t);
}

void __pthread_register_cancel(__pthread_unwind_buf_t *place)
{
    struct thread *t = self();
    place->__pad[0] = t->cleanups;
    t->cleanups = place;
}

void __pthread_unregister_cancel(__pthread_unwind_buf_t *place)
{
    self()->cleanups = place->__pad[0];
}

void __pthread_unwind_next(__pthread_unwind_buf_t *place)
{
    (void)place;
    unwind(self());
}

/* ---- waiting for the end ---- */

static void take_result(struct thread *t, void **result)
{
    if (result != NULL)
        *result = t->result;
    if (t != &main_thread)
        free(t);
}

/* Waits for the end of a thread, but not beyond the deadline. */
static int join_until(struct thread *t, void **result, uint64_t deadline)
{
    if (t == self())
        return EDEADLK;
    for (;;) {
        uint32_t state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
        if ((state & DETACHED) != 0)
            return EINVAL;
        if ((state & DONE) != 0)
            break;
        if (deadline == 0 || support_futex_wait(&t->state, state, deadline) == -ETIMEDOUT)
            return ETIMEDOUT;
    }
    take_result(t, result);
    return 0;
}

int pthread_join(pthread_t thread, void **result)
{
    return join_until(of(thread), result, SUPPORT_NEVER);
}

int pthread_tryjoin_np(pthread_t thread, void **result)
{
    int error = join_until(of(thread), result, 0);
    return error == ETIMEDOUT ? EBUSY : error;
}

int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
                         const struct timespec *at)
{
    if (at == NULL)
        return pthread_join(thread, result);
    if (!support_timespec_is_valid(at))
        return EINVAL;
    return join_until(of(thread), result, support_deadline(clock, at));
}

int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *at)
{
    return pthread_clockjoin_np(thread, result, CLOCK_REALTIME, at);
}

int pthread_detach(pthread_t thread)
{
    struct thread *t = of(thread);
    uint32_t before = __atomic_fetch_or(&t->state, DETACHED, __ATOMIC_SEQ_CST);
    if ((before & DETACHED) != 0)
        return EINVAL;
    if ((before & DONE) != 0 && t != &main_thread)
        free(t);
    return 0;
}

pthread_t pthread_self(void)
{
    return (pthread_t)self();
}

int pthread_equal(pthread_t a, pthread_t b)
{
    return a == b;
}

/* ---- what does not concern a machine that gives each thread its own core ---- */

int pthread_setname_np(pthread_t thread, const char *name)
{
    if (strlen(name) >= sizeof of(thread)->name)
        return ERANGE;
    strcpy(of(thread)->name, name);
    return 0;
}

int pthread_getname_np(pthread_t thread, char *name, size_t room)
{
    if (room <= strlen(of(thread)->name))
        return ERANGE;
    strcpy(name, of(thread)->name);
    return 0;
}

int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters)
{
    (void)thread, (void)policy, (void)parameters;
    return 0;
}

int pthread_getschedparam(pthread_t thread, int *restrict policy,
                          struct sched_param *restrict parameters)
{
    (void)thread;
    *policy = SCHED_OTHER;
    parameters->sched_priority = 0;
    return 0;
}

int pthread_setschedprio(pthread_t thread, int priority)
{
    (void)thread, (void)priority;
    return 0;
}

int pthread_setconcurrency(int level)
{
    (void)level;
    return 0;
}

int pthread_getconcurrency(void)
{
    return 0;
}

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    for (uint64_t number = 0; number < SUPPORT_THREADS; number++) {
        if (threads[number] != of(thread))
            continue;
        void *end;
        size_t bytes = sw_stack(number, &end);
        pthread_attr_init(attributes);
        return pthread_attr_setstack(attributes, (char *)end - bytes, bytes);
    }
    return ESRCH;
}

int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
    (void)thread;
    *clock = CLOCK_THREAD_CPUTIME_ID;
    return 0;
}

int pthread_cancel(pthread_t thread)
{
    (void)thread;
    support_refuse("pthread_cancel");
}

/* Nobody cancels, so that these change nothing. */
int pthread_setcancelstate(int state, int *before)
{
    (void)state;
    if (before != NULL)
        *before = PTHREAD_CANCEL_ENABLE;
    return 0;
}

int pthread_setcanceltype(int type, int *before)
{
    (void)type;
    if (before != NULL)
        *before = PTHREAD_CANCEL_DEFERRED;
    return 0;
}

void pthread_testcancel(void)
{
}

int pthread_kill(pthread_t thread, int number)
{
    if (number == 0)
        return (of(thread)->state & DONE) != 0 ? ESRCH : 0;
    support_refuse("pthread_kill");
}

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    (void)prepare, (void)parent, (void)child;
    return 0;
}
