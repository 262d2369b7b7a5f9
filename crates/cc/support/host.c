/* The way to the C library below: its own functions, found by name, and the brackets around what it
 * does to memory of its own. */
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* How many brackets each thread has open. Only ever more than 0 inside a bracket, where the machine
 * does not see it and no other thread runs. */
static uint32_t open_brackets[SUPPORT_THREADS];

static uint32_t *brackets(void)
{
    return &open_brackets[sw_thread_self() % SUPPORT_THREADS];
}

bool support_in_host(void)
{
    return *brackets() != 0;
}

void support_host_begin(void)
{
    uint32_t *open = brackets();
    if (*open == 0)
        sw_host_begin();
    *open += 1;
}

void support_host_end(void)
{
    uint32_t *open = brackets();
    *open -= 1;
    if (*open == 0)
        sw_host_end();
}

/* Nothing here may call malloc: the first malloc of all may be what looks for a function. */
void *support_real(void **slot, const char *name)
{
    if (*slot == NULL) {
        support_host_begin();
        void *found = dlsym(RTLD_NEXT, name);
        support_host_end();
        *slot = found;
        if (*slot == NULL)
            support_refuse(name);
    }
    return *slot;
}

void support_refuse(const char *name)
{
    sw_unsupported(name);
    __builtin_unreachable();
}

void support_abort(const char *message)
{
    support_host_begin();
    REAL(fputs)(message, stderr);
    REAL(fputs)("\n", stderr);
    support_host_end();
    abort();
}

void support_overflow(void)
{
    support_abort("*** buffer overflow detected ***: terminated");
}
