/* Files and mappings. The kernel reads and writes memory unseen, so what it reads or writes goes
 * through a buffer on the stack, and between this buffer and the program's memory by copies that
 * the machine sees. Mappings are the machine's. */
#include "support.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER 16384ul

/* What sw_sync_files is asked for. */
enum { SYNC_ALL, SYNC_FILE_SYSTEM, SYNC_FILE, SYNC_PART };

void support_check_input(int file)
{
    struct stat about;
    if (file != STDIN_FILENO)
        return;
    int failed = HOST(fstat(file, &about));
    bool waits = failed == 0 && !S_ISREG(about.st_mode) &&
                 !(S_ISCHR(about.st_mode) && HOST(isatty(file)) == 0);
    if (waits)
        support_refuse("input that is not from a file (give one with --input)");
}

/* ---- reading and writing; an offset of -1 is that of the file ---- */

static ssize_t read_piece(int file, char *to, size_t bytes, off_t offset)
{
    sw_work(SYSTEM_CALL_WORK);
    if (offset < 0)
        return HOST(REAL(read)(file, to, bytes));
    return HOST(REAL(pread)(file, to, bytes, offset));
}

static ssize_t write_piece(int file, const char *from, size_t bytes, off_t offset)
{
    sw_work(SYSTEM_CALL_WORK);
    if (offset < 0)
        return HOST(REAL(write)(file, from, bytes));
    return HOST(REAL(pwrite)(file, from, bytes, offset));
}

/* A file that is mapped has what was stored there, which the kernel does not know. */
static ssize_t read_mapped(int file, char *to, const char *from, size_t bytes, off_t offset)
{
    sw_work(SYSTEM_CALL_WORK);
    memcpy(to, from, bytes);
    if (offset < 0)
        HOST(lseek(file, (off_t)bytes, SEEK_CUR));
    return (ssize_t)bytes;
}

static ssize_t read_at(int file, char *to, size_t bytes, off_t offset)
{
    size_t there = bytes;
    const char *mapped = sw_mapped(file, offset, &there);
    if (mapped != NULL)
        return read_mapped(file, to, mapped, there, offset);
    char buffer[BUFFER] __attribute__((aligned(16)));
    size_t done = 0;
    do {
        size_t piece = bytes - done < BUFFER ? bytes - done : BUFFER;
        ssize_t count = read_piece(file, buffer, piece, offset < 0 ? -1 : offset + (off_t)done);
        if (count < 0)
            return done > 0 ? (ssize_t)done : -1;
        memcpy(to + done, buffer, (size_t)count);
        done += (size_t)count;
        if ((size_t)count < piece)
            break;
    } while (done < bytes);
    return (ssize_t)done;
}

static ssize_t write_unmapped(int file, const char *from, size_t bytes, off_t offset)
{
    char buffer[BUFFER] __attribute__((aligned(16)));
    size_t done = 0;
    do {
        size_t piece = bytes - done < BUFFER ? bytes - done : BUFFER;
        memcpy(buffer, from + done, piece);
        ssize_t count = write_piece(file, buffer, piece, offset < 0 ? -1 : offset + (off_t)done);
        if (count < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)count;
        if ((size_t)count < piece)
            break;
    } while (done < bytes);
    return (ssize_t)done;
}

/* What has just been written to a file is durable, in its mapping, too. */
static void sync_written(int file, size_t bytes, off_t offset)
{
    off_t end = offset < 0 ? HOST(lseek(file, 0, SEEK_CUR)) : offset + (off_t)bytes;
    sw_sync_files(SYNC_PART, file, end - (off_t)bytes, bytes);
}

static ssize_t write_at(int file, const char *from, size_t bytes, off_t offset)
{
    size_t there = bytes;
    char *mapped = sw_mapped(file, offset, &there);
    ssize_t done = write_unmapped(file, from, bytes, offset);
    if (mapped != NULL && done > 0) {
        memcpy(mapped, from, (size_t)done < there ? (size_t)done : there);
        if ((HOST(fcntl(file, F_GETFL)) & (O_SYNC | O_DSYNC)) != 0)
            sync_written(file, (size_t)done, offset);
    }
    return done;
}

ssize_t read(int file, void *to, size_t bytes)
{
    support_check_input(file);
    return read_at(file, to, bytes, -1);
}

ssize_t write(int file, const void *from, size_t bytes)
{
    return write_at(file, from, bytes, -1);
}

ssize_t pread(int file, void *to, size_t bytes, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return read_at(file, to, bytes, offset);
}
ssize_t pread64(int, void *, size_t, off64_t) ALIAS(pread);

ssize_t pwrite(int file, const void *from, size_t bytes, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return write_at(file, from, bytes, offset);
}
ssize_t pwrite64(int, const void *, size_t, off64_t) ALIAS(pwrite);

ssize_t __read_chk(int file, void *to, size_t bytes, size_t room)
{
    if (bytes > room)
        support_overflow();
    return read(file, to, bytes);
}

ssize_t __pread_chk(int file, void *to, size_t bytes, off_t offset, size_t room)
{
    if (bytes > room)
        support_overflow();
    return pread(file, to, bytes, offset);
}
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t) ALIAS(__pread_chk);

/* One piece after the other, up to the first that is not done as a whole. */
static ssize_t pieces_at(int file, const struct iovec *pieces, int count, off_t offset, bool writes)
{
    ssize_t done = 0;
    for (int i = 0; i < count; i++) {
        char *piece = pieces[i].iov_base;
        size_t bytes = pieces[i].iov_len;
        off_t at = offset < 0 ? -1 : offset + done;
        ssize_t now = writes ? write_at(file, piece, bytes, at) : read_at(file, piece, bytes, at);
        if (now < 0)
            return done > 0 ? done : -1;
        done += now;
        if ((size_t)now < bytes)
            break;
    }
    return done;
}

ssize_t readv(int file, const struct iovec *pieces, int count)
{
    support_check_input(file);
    return pieces_at(file, pieces, count, -1, false);
}

ssize_t writev(int file, const struct iovec *pieces, int count)
{
    return pieces_at(file, pieces, count, -1, true);
}

ssize_t preadv(int file, const struct iovec *pieces, int count, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return pieces_at(file, pieces, count, offset, false);
}
ssize_t preadv64(int, const struct iovec *, int, off64_t) ALIAS(preadv);

ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t offset)
{
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    return pieces_at(file, pieces, count, offset, true);
}
ssize_t pwritev64(int, const struct iovec *, int, off64_t) ALIAS(pwritev);

/* These take -1, too. Hints of how to read change nothing. */
ssize_t preadv2(int file, const struct iovec *pieces, int count, off_t offset, int flags)
{
    (void)flags;
    return offset == -1 ? readv(file, pieces, count) : preadv(file, pieces, count, offset);
}
ssize_t preadv64v2(int, const struct iovec *, int, off64_t, int) ALIAS(preadv2);

ssize_t pwritev2(int file, const struct iovec *pieces, int count, off_t offset, int flags)
{
    if ((flags & RWF_APPEND) != 0)
        support_refuse("pwritev2 that appends");
    ssize_t done = offset == -1 ? writev(file, pieces, count)
                                : pwritev(file, pieces, count, offset);
    if (done > 0 && (flags & (RWF_SYNC | RWF_DSYNC)) != 0)
        sync_written(file, (size_t)done, offset);
    return done;
}
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) ALIAS(pwritev2);

/* ---- names ---- */

/* A crash finds a file under its name. */
static int renamed(int failed)
{
    if (failed == 0)
        sw_renamed();
    return failed;
}

int rename(const char *from, const char *to)
{
    return renamed(HOST(REAL(rename)(from, to)));
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return renamed(HOST(REAL(renameat)(from_folder, from, to_folder, to)));
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return renamed(HOST(REAL(renameat2)(from_folder, from, to_folder, to, flags)));
}

int unlink(const char *path)
{
    return renamed(HOST(REAL(unlink)(path)));
}

int unlinkat(int folder, const char *path, int flags)
{
    return renamed(HOST(REAL(unlinkat)(folder, path, flags)));
}

int remove(const char *path)
{
    return renamed(HOST(REAL(remove)(path)));
}

/* ---- the length of files, and what is in them ---- */

int ftruncate(int file, off_t bytes)
{
    int writes = HOST(fcntl(file, F_GETFL)) & O_ACCMODE;
    if (sw_resize(file, bytes) != 0 && writes != O_RDONLY)
        return 0;
    return HOST(REAL(ftruncate)(file, bytes));
}
int ftruncate64(int, off64_t) ALIAS(ftruncate);

int truncate(const char *path, off_t bytes)
{
    int file = HOST(open(path, O_WRONLY | O_CLOEXEC));
    if (file < 0)
        return -1;
    int failed = ftruncate(file, bytes);
    HOST(close(file));
    return failed;
}
int truncate64(const char *, off64_t) ALIAS(truncate);

int fallocate(int file, int mode, off_t offset, off_t bytes)
{
    struct stat about;
    if ((mode & ~FALLOC_FL_KEEP_SIZE) != 0)
        sw_empty(file, offset, bytes);
    else if (mode == 0 && HOST(fstat(file, &about)) == 0 && about.st_size < offset + bytes)
        (void)sw_resize(file, offset + bytes);
    return HOST(REAL(fallocate)(file, mode, offset, bytes));
}
int fallocate64(int, int, off64_t, off64_t) ALIAS(fallocate);

/* ---- mappings ---- */

static intptr_t with_errno(intptr_t result)
{
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return (void *)with_errno(sw_mmap(at, bytes, protection, flags, file, offset));
}
void *mmap64(void *, size_t, int, int, int, off64_t) ALIAS(mmap);

int munmap(void *at, size_t bytes)
{
    return (int)with_errno(sw_munmap(at, bytes));
}

int msync(void *at, size_t bytes, int flags)
{
    return (int)with_errno(sw_msync(at, bytes, flags));
}

/* What is stored to a mapping of the file is durable, too. */
int fsync(int file)
{
    sw_work(SYSTEM_CALL_WORK);
    return sw_sync_files(SYNC_FILE, file, 0, 0) != 0 ? 0 : HOST(REAL(fsync)(file));
}
int fdatasync(int) ALIAS(fsync);

/* On Linux both wait until all is durable (sync(2)). What is not mapped is taken to be. */
int syncfs(int file)
{
    sw_work(SYSTEM_CALL_WORK);
    if (HOST(fcntl(file, F_GETFD)) < 0)
        return -1;
    sw_sync_files(SYNC_FILE_SYSTEM, file, 0, 0);
    return 0;
}

void sync(void)
{
    sw_work(SYSTEM_CALL_WORK);
    sw_sync_files(SYNC_ALL, -1, 0, 0);
}

/* Starts to write, and waits, but leaves what is written in the caches of the device, and tells
 * nobody where the file has it: it makes nothing durable (sync_file_range(2)). */
int sync_file_range(int file, off64_t offset, off64_t bytes, unsigned flags)
{
    sw_work(SYSTEM_CALL_WORK);
    return HOST(REAL(sync_file_range)(file, offset, bytes, flags));
}

/* Makes a mapping smaller; no program that was met makes one larger. */
void *mremap(void *at, size_t bytes, size_t new_bytes, int flags, ...)
{
    const size_t page = 4096;
    size_t keeps = (new_bytes + page - 1) & -page;
    size_t has = (bytes + page - 1) & -page;
    if (keeps > has || new_bytes == 0 || (flags & MREMAP_FIXED) != 0)
        support_refuse("mremap that grows or moves a mapping");
    if (keeps < has && munmap((char *)at + keeps, has - keeps) != 0)
        return MAP_FAILED;
    return at;
}

int mprotect(void *at, size_t bytes, int protection)
{
    return (int)with_errno(sw_protect(at, bytes, protection));
}

/* Hints change nothing. */
int madvise(void *at, size_t bytes, int advice)
{
    (void)at, (void)bytes;
    /* The only one that changes what is in memory. */
    if (advice == MADV_DONTNEED || advice == MADV_REMOVE)
        support_refuse("madvise that empties memory");
    return 0;
}

int posix_madvise(void *at, size_t bytes, int advice)
{
    (void)at, (void)bytes, (void)advice;
    return 0;
}

int mlock(const void *at, size_t bytes)
{
    (void)at, (void)bytes;
    return 0;
}

int munlock(const void *at, size_t bytes)
{
    (void)at, (void)bytes;
    return 0;
}

int mlockall(int flags)
{
    (void)flags;
    return 0;
}

int munlockall(void)
{
    return 0;
}
