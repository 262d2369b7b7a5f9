/* What cannot be done in a process that runs the threads of a program as fibers: another process, a
 * signal that comes from outside, or waiting for the outside. Each is refused by its name, so that
 * no program runs on as if it had been done. Signal handlers are accepted and never called: nothing
 * sends a signal. */
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A function of this name that is refused. The compiler may know another type for it. */
#define REFUSE(name)                                                                               \
    _Noreturn void support_refused_##name(void) __asm__(#name);                                    \
    void support_refused_##name(void)                                                              \
    {                                                                                              \
        support_refuse(#name);                                                                     \
    }

/* Processes. */
REFUSE(fork)
REFUSE(vfork)
REFUSE(clone)
REFUSE(execl)
REFUSE(execle)
REFUSE(execlp)
REFUSE(execv)
REFUSE(execve)
REFUSE(execvp)
REFUSE(execvpe)
REFUSE(fexecve)
REFUSE(posix_spawn)
REFUSE(posix_spawnp)
REFUSE(system)
REFUSE(popen)
REFUSE(daemon)
REFUSE(wait)
REFUSE(waitpid)
/* Code that was not compiled by seawall. */
REFUSE(dlopen)
REFUSE(dlmopen)
/* The outside. */
REFUSE(socket)
REFUSE(socketpair)
REFUSE(epoll_create)
REFUSE(epoll_create1)
REFUSE(ppoll)
REFUSE(pselect)
REFUSE(eventfd)
REFUSE(inotify_init)
REFUSE(inotify_init1)
REFUSE(signalfd)
REFUSE(shmget)
REFUSE(shmat)
/* Signals at some time. */
REFUSE(alarm)
REFUSE(ualarm)
REFUSE(setitimer)
REFUSE(timer_create)
REFUSE(timerfd_create)
REFUSE(pause)
REFUSE(sigsuspend)
REFUSE(sigwait)
REFUSE(sigwaitinfo)
REFUSE(sigtimedwait)
REFUSE(kill)
REFUSE(killpg)
REFUSE(sigqueue)
REFUSE(pthread_sigqueue)
/* Contexts would change stacks unseen. */
REFUSE(makecontext)
REFUSE(swapcontext)
REFUSE(setcontext)

/* ---- handlers, which nothing calls ---- */

static struct sigaction actions[NSIG];

int sigaction(int number, const struct sigaction *restrict action,
              struct sigaction *restrict before)
{
    if (number <= 0 || number >= NSIG) {
        errno = EINVAL;
        return -1;
    }
    struct sigaction had = actions[number];
    if (action != NULL)
        actions[number] = *action;
    if (before != NULL)
        *before = had;
    return 0;
}

__sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler};
    struct sigaction before;
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    (void)how, (void)set;
    if (before != NULL)
        memset(before, 0, sizeof *before);
    return 0;
}

int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    return sigprocmask(how, set, before);
}

int sigaltstack(const stack_t *restrict stack, stack_t *restrict before)
{
    (void)stack;
    if (before != NULL)
        *before = (stack_t){.ss_flags = SS_DISABLE};
    return 0;
}

/* A program that sends itself a signal: its handler is called, or the program ends. */
int raise(int number)
{
    if (number <= 0 || number >= NSIG) {
        errno = EINVAL;
        return -1;
    }
    __sighandler_t handler = actions[number].sa_handler;
    if (handler == SIG_IGN || (handler == SIG_DFL && number == SIGCHLD))
        return 0;
    if (handler == SIG_DFL) {
        sw_end_by(number);
        __builtin_unreachable();
    }
    handler(number);
    return 0;
}
