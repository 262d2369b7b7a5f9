/* stale.c: a pool that keeps an address, which another process may not have.
 *
 *     stale KIND POOL run|check
 *
 * KIND is what the address is of: the mapping (map), a node of the heap, a variable of the stack, a
 * global variable, a function (code), a table of functions (table), a function of the C library
 * (library). Right are: an offset, a mapping at the address that it had (fixed), or at one that the
 * program asks for (hint). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)
#define HINT ((void *)0x100000000000ul + (77ul << 30))

enum kind { MAP, HEAP, STACK, GLOBAL, CODE, TABLE, LIBRARY, OFFSET, FIXED, HINTED, KINDS };
static const char *const names[] = {"map",     "heap",   "stack", "global", "code",
                                    "table",   "library", "offset", "fixed",  "hint"};

struct table {
    int (*hash)(const char *);
};

struct root {
    uint64_t ready;
    uint64_t kind;
    void *base;
    uint64_t address;
    char text[8];
};

static char global[8];

__attribute__((noinline)) static int add(const char *text)
{
    int sum = 0;
    while (*text != 0)
        sum += *text++;
    return sum;
}

static const struct table table = {add};

static int (*volatile library)(const char *) = puts;

static void persist(const void *at, size_t bytes)
{
    for (uintptr_t line = (uintptr_t)at & ~63ul; line < (uintptr_t)at + bytes; line += 64)
        _mm_clflush((void *)line);
    _mm_sfence();
}

static struct root *open_pool(const char *path, enum kind kind)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, BYTES) != 0)
        exit(9);
    void *hint = kind == HINTED ? HINT : NULL;
    struct root *root = mmap(hint, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (kind == FIXED && root->ready) {
        void *base = root->base;
        munmap(root, BYTES);
        root = mmap(base, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    }
    if (root == MAP_FAILED)
        exit(8);
    return root;
}

static int check(struct root *root)
{
    if (!root->ready)
        return 0;
    int sum;
    if (root->kind == LIBRARY)
        return ((int (*)(const char *))root->address)("library") < 0;
    if (root->kind == CODE)
        sum = ((int (*)(const char *))root->address)("abc");
    else if (root->kind == TABLE)
        sum = ((const struct table *)root->address)->hash("abc");
    else if (root->kind == OFFSET)
        sum = add((char *)root + root->address);
    else
        sum = add((const char *)root->address);
    return sum != 'a' + 'b' + 'c';
}

int seawall_check(const char *path)
{
    return check(open_pool(path, MAP));
}

int main(int count, char **words)
{
    enum kind kind = MAP;
    if (count < 4)
        return 7;
    while (kind < KINDS && strcmp(words[1], names[kind]) != 0)
        kind++;
    struct root *root = open_pool(words[2], kind);
    if (strcmp(words[3], "check") == 0)
        return check(root);
    char local[8];
    char *text = kind == HEAP     ? malloc(8)
                 : kind == STACK  ? local
                 : kind == GLOBAL ? global
                                  : root->text;
    strcpy(text, "abc");
    root->kind = kind;
    root->base = root;
    root->address = kind == CODE      ? (uint64_t)add
                    : kind == TABLE   ? (uint64_t)&table
                    : kind == LIBRARY ? (uint64_t)library
                    : kind == OFFSET  ? (uint64_t)(text - (char *)root)
                                      : (uint64_t)text;
    persist(root, sizeof *root);
    root->ready = 1;
    persist(root, sizeof *root);
    return 0;
}
