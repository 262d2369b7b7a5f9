/* synced.c: what system calls make durable of mappings. Data, a call, and a mark.
 *
 *     synced CALL POOL run|check
 *     synced errors POOL           prints what calls return and errno */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4
#define WORDS 3

static int file, other_file;
static char *pool, *data;

static uint64_t written[WORDS] = {5, 5, 5};

static int is(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

static char *map(size_t pages, off_t from, int how)
{
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, how, file, from);
    return at == MAP_FAILED ? NULL : at;
}

/* Stores the data; all but the first ones by the call itself. */
static int call(const char *name, const char *path)
{
    struct iovec piece = {written, sizeof written};
    int writes = open(path, O_RDWR | (is(name, "write-dsync") ? O_DSYNC : O_SYNC));
    if (is(name, "write-dsync") || is(name, "write-sync"))
        return pwrite(writes, written, sizeof written, PAGE) != sizeof written;
    if (is(name, "write"))
        return pwrite(file, written, sizeof written, PAGE) != sizeof written;
    if (is(name, "writev2") || is(name, "writev2-dsync"))
        return pwritev2(file, &piece, 1, PAGE, is(name, "writev2") ? 0 : RWF_DSYNC) !=
               sizeof written;
    memcpy(data, written, sizeof written);
    if (is(name, "msync"))
        return msync(data, 1, MS_SYNC);
    if (is(name, "msync-two"))
        return msync(pool, PAGES * PAGE, MS_SYNC | MS_INVALIDATE);
    if (is(name, "msync-async"))
        return msync(data, PAGE, MS_ASYNC);
    if (is(name, "msync-other"))
        return msync(data + PAGE, PAGE, MS_SYNC);
    if (is(name, "msync-nothing"))
        return msync(data, PAGE, 0) || msync(data, PAGE, MS_INVALIDATE) || msync(data, 0, MS_SYNC);
    if (is(name, "msync-unaligned"))
        return msync(data + 64, 8, MS_SYNC) == 0;
    if (is(name, "msync-gap")) {
        munmap(data + PAGE, PAGE);
        return msync(data, 3 * PAGE, MS_SYNC) == 0 || errno != ENOMEM;
    }
    if (is(name, "fsync"))
        return fsync(file);
    if (is(name, "fsync-other"))
        return fsync(other_file);
    if (is(name, "fsync-raw"))
        return (int)syscall(SYS_fsync, file);
    if (is(name, "fdatasync"))
        return fdatasync(file);
    if (is(name, "fsync-unmapped"))
        return munmap(pool, PAGES * PAGE) || fsync(file) || (pool = map(PAGES, 0, MAP_SHARED)) == NULL;
    if (is(name, "fsync-locked"))
        return mprotect(data, PAGE, PROT_NONE) || fsync(file);
    if (is(name, "syncfs"))
        return syncfs(file);
    if (is(name, "sync"))
        sync();
    if (is(name, "range"))
        return sync_file_range(file, 0, PAGES * PAGE, 7);
    if (is(name, "unmap"))
        return munmap(pool, PAGES * PAGE) || (pool = map(PAGES, 0, MAP_SHARED)) == NULL;
    return 0;
}

static void told(const char *what, long result)
{
    printf("%s %d %s\n", what, result == -1 ? -1 : 0, result == -1 ? strerror(errno) : "");
    errno = 0;
}

static int errors(void)
{
    char *private = map(1, 0, MAP_PRIVATE);
    told("unaligned", msync(pool + 64, 64, MS_SYNC));
    told("unknown", msync(pool, PAGE, 8));
    told("both", msync(pool, PAGE, MS_SYNC | MS_ASYNC));
    told("none", msync(pool, PAGE, 0));
    told("empty", msync(pool, 0, MS_SYNC));
    told("private", msync(private, PAGE, MS_SYNC));
    told("endless", msync(pool, -PAGE, MS_SYNC));
    told("munmap unaligned", munmap(pool + 1, PAGE));
    told("munmap of nothing", munmap(pool, 0));
    told("mprotect unaligned", mprotect(pool + 1, PAGE, PROT_READ));
    told("mmap of nothing", (long)mmap(NULL, 0, PROT_READ, MAP_SHARED, file, 0));
    told("mmap of no kind", (long)mmap(NULL, PAGE, PROT_READ, 0, file, 0));
    told("mmap of no file", (long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, 99, 0));
    told("mmap from 1", (long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 1));
    told("syncfs of no file", syncfs(99));
    told("fsync of no file", fsync(99));
    told("munmap", munmap(pool + 2 * PAGE, PAGE));
    told("munmap again", munmap(pool + 2 * PAGE, PAGE));
    told("gap", msync(pool, PAGES * PAGE, MS_ASYNC));
    told("before the gap", msync(pool, 2 * PAGE, MS_ASYNC));
    told("mprotect over the gap", mprotect(pool, PAGES * PAGE, PROT_READ));
    return 0;
}

int main(int count, char **words)
{
    if (count < 3)
        return 9;
    file = open(words[2], O_RDWR | O_CREAT, 0600);
    other_file = open(words[2], O_RDONLY);
    if (file < 0 || ftruncate(file, PAGES * PAGE) != 0)
        return 8;
    if (is(words[1], "fsync-part")) {
        /* What comes before is not mapped. */
        data = map(1, PAGE, MAP_SHARED);
        pool = map(1, 0, MAP_PRIVATE);
    } else {
        pool = map(PAGES, 0, MAP_SHARED);
        data = pool + PAGE;
    }
    if (is(words[1], "errors"))
        return errors();
    if (is(words[3], "check")) {
        uint64_t has[WORDS], mark;
        if (pread(file, has, sizeof has, PAGE) < 0 || pread(file, &mark, 8, 2 * PAGE) < 0)
            return 7;
        return mark != 0 && memcmp(has, written, sizeof has) != 0;
    }
    /* The page is known before anything is written to it. */
    ((volatile char *)data)[1024] = 1;
    int failed = is(words[1], "fsync-part") ? call("fsync", words[2]) : call(words[1], words[2]);
    if (failed) {
        perror(words[1]);
        return 6;
    }
    volatile uint64_t *mark = (uint64_t *)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                                               2 * PAGE);
    *mark = 1;
    return msync((void *)mark, PAGE, MS_SYNC);
}
