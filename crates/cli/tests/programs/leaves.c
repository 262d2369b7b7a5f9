/* leaves.c: what a program leaves behind when it is stopped, or when it ends.
 *
 *     leaves run POOL      stores two words, in order
 *     leaves loop POOL     does that, makes POOL.here, and never ends
 *     leaves stuck POOL    as a check: never ends where a crash has come between the two words
 *     leaves check POOL    as a check: the second word comes after the first
 *     leaves behind POOL   starts processes in sessions of their own that never end, makes POOL.here
 *                          and ends
 *     leaves both POOL     starts them, and does not end either */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void is_here(const char *pool)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.here", pool);
    close(open(name, O_CREAT | O_WRONLY, 0600));
}

static void never_end(void)
{
    for (;;)
        __asm__ volatile("pause");
}

static void leave(void)
{
    for (int i = 0; i < 2; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        for (;;)
            pause();
    }
}

int main(int count, char **words)
{
    if (count < 3)
        return 9;
    const char *what = words[1], *path = words[2];
    if (strcmp(what, "behind") == 0 || strcmp(what, "both") == 0) {
        leave();
        is_here(path);
        if (strcmp(what, "both") == 0)
            never_end();
        return 0;
    }
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 8;
    volatile uint64_t *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (strcmp(what, "check") == 0)
        return pool[0] < pool[8];
    if (strcmp(what, "stuck") == 0) {
        if (pool[0] == pool[8])
            return 0;
        is_here(path);
        never_end();
    }
    for (int word = 0; word < 16; word += 8) {
        pool[word] = 1;
        _mm_clflush((void *)&pool[word]);
        _mm_sfence();
    }
    if (strcmp(what, "loop") == 0) {
        is_here(path);
        never_end();
    }
    return 0;
}
