/* elsewhere.c: where a program has its files. A mark stands for data that must be durable first.
 *
 *     elsewhere WHERE right|wrong PATH run|check      wrong: the data is never flushed
 *
 * WHERE is
 *     path       the file PATH, or, if that is "variable", the one that $FILES_POOL names
 *     beside     the data is in PATH, the mark in PATH.mark
 *     named      the same; PATH has the path of the other file in it
 *     linked     PATH.link is a link to PATH, by which it is opened
 *     folder     PATH is a folder with a file
 *     renamed    PATH.new gets its length, and then its name
 *     again      PATH is removed first, and made again
 *     stream     PATH is made by fopen
 *     shared     a file of shm_open
 *     nameless   a file of memfd_create
 *     temporary  a file of O_TMPFILE, in the folder PATH
 *     unlinked   PATH, whose name is removed before it is mapped */
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES 8192

static const char *where;

static int is(const char *name)
{
    return strcmp(where, name) == 0;
}

static int made(const char *path)
{
    return open(path, O_RDWR | O_CREAT, 0600);
}

static int opened(const char *path)
{
    char other[4096];
    if (is("shared"))
        return shm_open("/seawall-test-elsewhere", O_RDWR | O_CREAT, 0600);
    if (is("nameless"))
        return memfd_create("nameless", 0);
    if (is("temporary"))
        return open(path, O_RDWR | O_TMPFILE, 0600);
    if (is("unlinked")) {
        int file = made(path);
        unlink(path);
        return file;
    }
    if (is("again"))
        unlink(path);
    if (is("stream")) {
        FILE *stream = fopen(path, "r+");
        stream = stream == NULL ? fopen(path, "w+") : stream;
        return stream == NULL ? -1 : fileno(stream);
    }
    if (is("folder")) {
        mkdir(path, 0700);
        snprintf(other, sizeof other, "%s/pool", path);
        return made(other);
    }
    if (is("renamed")) {
        struct stat about;
        snprintf(other, sizeof other, "%s.new", path);
        if (stat(path, &about) != 0 || about.st_size != BYTES) {
            close(made(other));
            if (truncate(other, BYTES) != 0 || rename(other, path) != 0)
                return -1;
        }
    }
    if (is("linked")) {
        snprintf(other, sizeof other, "%s.link", path);
        close(made(path));
        (void)!symlink(path, other);
        return made(other);
    }
    return made(path);
}

static volatile uint64_t *mapped(int file)
{
    if (file < 0 || ftruncate(file, BYTES) != 0)
        exit(9);
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        exit(8);
    return at;
}

static void persist(volatile uint64_t *word)
{
    _mm_clflush((void *)word);
    _mm_sfence();
}

int main(int count, char **words)
{
    if (count < 5)
        return 7;
    where = words[1];
    const char *path = strcmp(words[3], "variable") == 0 ? getenv("FILES_POOL") : words[3];
    int checks = strcmp(words[4], "check") == 0;
    if (is("again") && checks)
        where = "path";
    volatile uint64_t *data = mapped(opened(path));
    volatile uint64_t *mark = data + 64;
    if (is("beside")) {
        char other[4096];
        snprintf(other, sizeof other, "%s.mark", path);
        mark = mapped(made(other));
    }
    if (is("named")) {
        char *name = (char *)(data + 128);
        if (!checks)
            snprintf(name, 256, "%s.mark", path);
        for (int line = 0; line < 256 / 64 && !checks; line++)
            persist((volatile uint64_t *)name + 8 * line);
        if (strstr(name, ".mark") == NULL)
            return 0;
        mark = mapped(made(name));
    }
    if (checks) {
        printf("data %lu, mark %lu\n", (unsigned long)*data, (unsigned long)*mark);
        return *mark != 0 && *data != 5;
    }
    if (*mark != 0)
        return 6;
    *data = 5;
    if (strcmp(words[2], "right") == 0)
        persist(data);
    *mark = 1;
    persist(mark);
    return 0;
}
