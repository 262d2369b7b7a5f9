/* ends.c: ways in which a program ends, and what it does to its pool before that.
 *
 *     ends WAY POOL
 *     ends check POOL */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536

static const char *way;
static int file;

static int is(const char *name)
{
    return strcmp(way, name) == 0;
}

static void *aborts(void *nothing)
{
    abort();
    return nothing;
}

static volatile uint64_t *map(int protection)
{
    void *at = mmap(NULL, BYTES, protection, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(8);
    }
    return at;
}

static void store(volatile uint64_t *word, uint64_t value)
{
    *word = value;
    _mm_clflush((void *)word);
    _mm_sfence();
}

/* What is done to the mapping. */
static void change(volatile uint64_t *pool)
{
    if (is("unmapped")) {
        munmap((void *)pool, BYTES);
        store(pool, 2);
    }
    if (is("read-only")) {
        mprotect((void *)pool, BYTES, PROT_READ);
        store(pool, 2);
    }
    if (is("again")) {
        char byte = 0;
        volatile uint64_t *other = map(PROT_READ);
        munmap((void *)other, BYTES);
        store(pool, 2);
        munmap((void *)pool, BYTES);
        if (pread(file, &byte, 1, 0) != 1 || byte != 2)
            exit(7);
        store(map(PROT_READ | PROT_WRITE), 3);
    }
}

/* What is done to the file. */
static void change_file(volatile uint64_t *pool, const char *path)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.other", path);
    if (is("renamed"))
        rename(path, other);
    if (is("removed"))
        unlink(path);
    if (is("replaced")) {
        close(open(other, O_RDWR | O_CREAT, 0600));
        rename(other, path);
    }
    if (is("shorter") || is("longer-again")) {
        store(pool + 4096, 1);
        if (ftruncate(file, 4096) != 0 || (is("longer-again") && ftruncate(file, BYTES) != 0))
            exit(6);
    }
    if (is("hole") || is("hole-elsewhere")) {
        off_t where = is("hole") ? 0 : BYTES / 2;
        if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, where, 4096) != 0)
            exit(5);
    }
}

int main(int count, char **words)
{
    if (count < 3)
        return 9;
    way = words[1];
    if (is("nothing"))
        return 0;
    file = open(words[2], O_RDWR | O_CREAT, 0600);
    if (is("check")) {
        char byte;
        return pread(file, &byte, 1, 0) == 1 && byte > 3;
    }
    if (ftruncate(file, BYTES) != 0)
        return 4;
    if (is("read-only-file"))
        file = open(words[2], O_RDONLY);
    volatile uint64_t *pool = map(PROT_READ | PROT_WRITE);
    store(pool, 1);
    change(pool);
    change_file(pool, words[2]);
    if (is("abort"))
        abort();
    if (is("assert"))
        assert(pool[0] == 0);
    if (is("raise"))
        raise(SIGTERM);
    if (is("thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, aborts, NULL);
        pthread_join(thread, NULL);
    }
    if (is("fails")) {
        fprintf(stderr, "there is no such option\n");
        return 3;
    }
    return 0;
}
