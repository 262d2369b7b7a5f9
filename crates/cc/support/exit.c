/* The start and the end of a program. The process has more to do when the program has ended, so
 * that the C library's own exit is never called: what is to be run at the end is kept here, and
 * streams are flushed. */
#include "support.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum form { PLAIN, WITH_ARGUMENT, WITH_STATUS };

struct at_exit {
    enum form form;
    void (*run)(void);
    void *argument;
    void *module;
    struct at_exit *before;
};

static volatile uint32_t list_lock;
static struct at_exit *at_exit;
static struct at_exit *at_quick_exit_list;
/* Whether some thread has begun to end the program. */
static volatile uint64_t ending;

static int add(struct at_exit **list, struct at_exit entry)
{
    struct at_exit *added = malloc(sizeof *added);
    if (added == NULL)
        return -1;
    *added = entry;
    support_lock(&list_lock);
    added->before = *list;
    *list = added;
    support_unlock(&list_lock);
    return 0;
}

int atexit(void (*run)(void))
{
    return add(&at_exit, (struct at_exit){.form = PLAIN, .run = run});
}

int at_quick_exit(void (*run)(void))
{
    return add(&at_quick_exit_list, (struct at_exit){.form = PLAIN, .run = run});
}

int on_exit(void (*run)(int, void *), void *argument)
{
    return add(&at_exit, (struct at_exit){WITH_STATUS, (void (*)(void))run, argument, NULL, NULL});
}

int __cxa_atexit(void (*run)(void *), void *argument, void *module)
{
    return add(&at_exit,
               (struct at_exit){WITH_ARGUMENT, (void (*)(void))run, argument, module, NULL});
}

int __cxa_at_quick_exit(void (*run)(void *), void *module)
{
    return add(&at_quick_exit_list,
               (struct at_exit){WITH_ARGUMENT, (void (*)(void))run, NULL, module, NULL});
}

/* Takes the entry that was added last, of any module if that is null. */
static struct at_exit *take(struct at_exit **list, void *module)
{
    support_lock(&list_lock);
    while (*list != NULL && module != NULL && (*list)->module != module)
        list = &(*list)->before;
    struct at_exit *entry = *list;
    if (entry != NULL)
        *list = entry->before;
    support_unlock(&list_lock);
    return entry;
}

/* Entries that are added meanwhile are run too. */
static void run_all(struct at_exit **list, void *module, int status)
{
    for (struct at_exit *entry; (entry = take(list, module)) != NULL;) {
        if (entry->form == PLAIN)
            entry->run();
        else if (entry->form == WITH_ARGUMENT)
            ((void (*)(void *))entry->run)(entry->argument);
        else
            ((void (*)(int, void *))entry->run)(status, entry->argument);
        free(entry);
    }
}

/* Of one module; the C library calls it for those that it removes. */
void __cxa_finalize(void *module)
{
    if (module != NULL)
        run_all(&at_exit, module, 0);
}

static _Noreturn void end(int status)
{
    sw_exit(status);
    __builtin_unreachable();
}

/* The first thread ends the program; others that want to do so as well wait for that. */
static void begin_end(void)
{
    uint64_t me = sw_thread_self() + 1;
    uint64_t none = 0;
    if (__atomic_compare_exchange_n(&ending, &none, me, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED))
        return;
    while (none != me)
        sw_wait_while(&ending, none);
}

void exit(int status)
{
    begin_end();
    support_objects_finish();
    run_all(&at_exit, NULL, status);
    HOST(REAL(fflush)(NULL));
    end(status & 255);
}

void quick_exit(int status)
{
    begin_end();
    run_all(&at_quick_exit_list, NULL, status);
    end(status & 255);
}

void _exit(int status)
{
    end(status & 255);
}

void _Exit(int status)
{
    end(status & 255);
}

void abort(void)
{
    sw_end_by(SIGABRT);
    __builtin_unreachable();
}

/* ---- failed assertions ---- */

void __assert_fail(const char *assertion, const char *file, unsigned line, const char *function)
{
    HOST(REAL(fprintf)(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line,
                       function == NULL ? "?" : function, assertion));
    abort();
}

void __assert_perror_fail(int error, const char *file, unsigned line, const char *function)
{
    HOST(REAL(fprintf)(stderr, "%s:%u: %s: Unexpected error: %s.\n", file, line,
                       function == NULL ? "?" : function, strerror(error)));
    abort();
}

void __assert(const char *assertion, const char *file, int line)
{
    __assert_fail(assertion, file, (unsigned)line, NULL);
}

void __chk_fail(void)
{
    support_overflow();
}

void __stack_chk_fail(void)
{
    support_abort("*** stack smashing detected ***: terminated");
}

/* ---- the start ---- */

/* What the first thread of the program runs. */
_Noreturn void sw_run_main(int (*program)(int, char **, char **), int count, char **arguments,
                           char **environment)
{
    exit(program(count, arguments, environment));
}

/* What it runs instead where a function of the program is the check. */
_Noreturn void sw_run_check(int (*check)(const char *), const char *pool)
{
    exit(check(pool));
}
