/* Loads an image as seawall does, and calls its `main`. The entries of the page do as little as they
 * can: an access gives the program's register back, and that is all. */
#define _GNU_SOURCE
#include "page.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* SAVED in abi.rs. */
extern char entry[];
__asm__("entry: movq 0x5ea00000, %rdi\n\tret");

static uint64_t none(void) { return 0; }
static void unsupported(const char *what) {
    fprintf(stderr, "unsupported: %s\n", what);
    _exit(3);
}
static void end(int code) { _exit(code); }
static intptr_t map(void *at, size_t bytes, int rights, int flags, int file, int64_t offset) {
    return (intptr_t)mmap(at, bytes, rights, flags, file, offset);
}
static void *heap_grow(size_t bytes) {
    static char *start, *next;
    if (!start)
        start = next = mmap(0, 1 << 30, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *old = next;
    next += bytes;
    return old;
}
static uint64_t cores(void) { return 1; }

int main(int count, char **words) {
    char *page = mmap((void *)SEAWALL_PAGE, 0x1000, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == MAP_FAILED)
        return 99;
    for (int number = 0; number < 8; number++)
        ((void **)(page + 0x100))[number] = entry;
    void **calls = (void **)(page + 0x200);
    for (int call = 0; call < 64; call++)
        calls[call] = none;
    calls[5] = end;
    calls[6] = unsupported;
    calls[7] = map;
    calls[8] = munmap;
    calls[10] = heap_grow;
    calls[19] = cores;
    void *image = dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!image) {
        fprintf(stderr, "%s\n", dlerror());
        return 98;
    }
    int (*start)(int, char **, char **) = (int (*)(int, char **, char **))dlsym(image, "main");
    if (!start)
        return 97;
    int code = start(count - 1, words + 1, environ);
    fflush(0);
    _exit(code);
}
