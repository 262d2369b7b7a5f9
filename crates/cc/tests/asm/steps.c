/* Counts the instructions of `kernel` by single steps, in a child that runs the same code. The text
 * of the kernel is the section `stepped`. With an argument, the kernel is the instrumented one and
 * says itself what it counts. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

unsigned long kernel(void);
extern char __start_stepped[], __stop_stepped[];

static int by_itself(void) {
    test_reset();
    unsigned long result = kernel();
    printf("%lu %lu", test_instructions(), result);
    return 0;
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) return by_itself();
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(2);
        raise(SIGSTOP);
        volatile unsigned long result = kernel();
        (void)result;
        _exit(0);
    }
    int status;
    unsigned long steps = 0, before = 0;
    waitpid(child, &status, 0);
    while (WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        if (ptrace(PTRACE_GETREGS, child, 0, &registers) != 0) break;
        unsigned long at = registers.rip;
        /* A repeated instruction steps at one place. */
        if (at >= (unsigned long)__start_stepped && at < (unsigned long)__stop_stepped && at != before)
            steps++;
        before = at;
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0) break;
        waitpid(child, &status, 0);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 2;
    printf("%lu %lu", steps, kernel());
    return 0;
}
