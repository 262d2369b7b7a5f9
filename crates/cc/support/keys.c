/* What a thread has of its own by key, what is run at its end, and what is run only once. The C
 * library would keep it with its own threads, whose end is not that of a thread of the program. */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

#define KEYS 512

typedef void (*destructor)(void *);

/* Per key: whether it is in use, and its destructor. */
static volatile uint32_t key_lock;
static bool in_use[KEYS];
static destructor destructors[KEYS];
/* The key of the same number may have been deleted and created again: a value counts only if it was
 * set for this creation. */
static uint64_t creation[KEYS];

struct support_value {
    void *value;
    uint64_t creation;
};

int pthread_key_create(pthread_key_t *key, destructor at_end)
{
    int error = EAGAIN;
    support_lock(&key_lock);
    for (unsigned k = 0; k < KEYS; k++) {
        if (in_use[k])
            continue;
        in_use[k] = true;
        destructors[k] = at_end;
        creation[k]++;
        *key = k;
        error = 0;
        break;
    }
    support_unlock(&key_lock);
    return error;
}
int __pthread_key_create(pthread_key_t *, destructor) ALIAS(pthread_key_create);

int pthread_key_delete(pthread_key_t key)
{
    if (key >= KEYS || !in_use[key])
        return EINVAL;
    in_use[key] = false;
    return 0;
}

void *pthread_getspecific(pthread_key_t key)
{
    struct support_value *values = support_keys_of_thread()->values;
    if (key >= KEYS || values == NULL || values[key].creation != creation[key])
        return NULL;
    return values[key].value;
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
    if (key >= KEYS || !in_use[key])
        return EINVAL;
    struct support_keys *mine = support_keys_of_thread();
    if (mine->values == NULL)
        mine->values = calloc(KEYS, sizeof(struct support_value));
    if (mine->values == NULL)
        return ENOMEM;
    mine->values[key] = (struct support_value){(void *)value, creation[key]};
    return 0;
}

/* Runs the destructors of the values that the thread has; whether there were any. */
static bool destroy_values(struct support_value *values)
{
    bool any = false;
    for (unsigned k = 0; k < KEYS; k++) {
        void *value = values[k].value;
        values[k].value = NULL;
        if (value == NULL || !in_use[k] || values[k].creation != creation[k] || !destructors[k])
            continue;
        destructors[k](value);
        any = true;
    }
    return any;
}

/* ---- objects of C++ with the lifetime of a thread ---- */

struct support_at_end {
    destructor run;
    void *argument;
    struct support_at_end *before;
};

int __cxa_thread_atexit_impl(destructor run, void *argument, void *module)
{
    (void)module;
    struct support_keys *mine = support_keys_of_thread();
    struct support_at_end *entry = malloc(sizeof *entry);
    if (entry == NULL)
        support_abort("__cxa_thread_atexit: no memory is left");
    *entry = (struct support_at_end){run, argument, mine->at_end};
    mine->at_end = entry;
    return 0;
}
int __cxa_thread_atexit(destructor, void *, void *) ALIAS(__cxa_thread_atexit_impl);

void support_objects_finish(void)
{
    struct support_keys *mine = support_keys_of_thread();
    for (struct support_at_end *entry; (entry = mine->at_end) != NULL;) {
        mine->at_end = entry->before;
        entry->run(entry->argument);
        free(entry);
    }
}

void support_keys_finish(void)
{
    struct support_keys *mine = support_keys_of_thread();
    /* Destructors may set values again: POSIX asks for four rounds. */
    for (int round = 0; mine->values != NULL && round < 4; round++) {
        if (!destroy_values(mine->values))
            break;
    }
    free(mine->values);
    mine->values = NULL;
}

/* ---- once ---- */

/* AWAITED is RUNNING, and somebody sleeps until it is over. */
enum { RUNNING = 1, RUN = 2, AWAITED = 3 };

int pthread_once(pthread_once_t *once, void (*run)(void))
{
    volatile uint32_t *state = (volatile uint32_t *)once;
    while (__atomic_load_n(state, __ATOMIC_ACQUIRE) != RUN) {
        uint32_t fresh = 0;
        if (__atomic_compare_exchange_n(state, &fresh, RUNNING, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
            run();
            __atomic_exchange_n(state, RUN, __ATOMIC_SEQ_CST);
            support_futex_wake(state, SUPPORT_ALL);
            break;
        }
        support_futex_wait(state, RUNNING, SUPPORT_NEVER);
    }
    return 0;
}
int __pthread_once(pthread_once_t *, void (*)(void)) ALIAS(pthread_once);

/* Static variables of C++ functions. The compiler looks at the first byte; the state here is in the
 * second half. */
struct guard {
    volatile uint8_t is_set;
    volatile uint32_t state;
};

int __cxa_guard_acquire(struct guard *guard)
{
    for (;;) {
        if (__atomic_load_n(&guard->is_set, __ATOMIC_ACQUIRE) != 0)
            return 0;
        uint32_t fresh = 0;
        if (__atomic_compare_exchange_n(&guard->state, &fresh, RUNNING, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return 1;
        if (fresh == RUNNING)
            __atomic_compare_exchange_n(&guard->state, &fresh, AWAITED, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED);
        support_futex_wait(&guard->state, AWAITED, SUPPORT_NEVER);
        if (__atomic_load_n(&guard->state, __ATOMIC_ACQUIRE) == RUN)
            return 0;
    }
}

static void end_guard(struct guard *guard, uint32_t state)
{
    if (__atomic_exchange_n(&guard->state, state, __ATOMIC_SEQ_CST) == AWAITED)
        support_futex_wake(&guard->state, SUPPORT_ALL);
}

void __cxa_guard_release(struct guard *guard)
{
    __atomic_store_n(&guard->is_set, 1, __ATOMIC_RELEASE);
    end_guard(guard, RUN);
}

void __cxa_guard_abort(struct guard *guard)
{
    end_guard(guard, 0);
}
