/* Files, streams, and how programs end. */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TESTED(read);
TESTED(write);
TESTED(pread);
TESTED(pwrite);
TESTED(fsync);
TESTED(fdatasync);
TESTED(mmap);
TESTED(munmap);
TESTED(msync);
TESTED(fread);
TESTED(fwrite);
TESTED(fgets);
TESTED(fputs);
TESTED(puts);
TESTED(printf);
TESTED(fprintf);
TESTED(snprintf);
TESTED(sprintf);
TESTED(asprintf);
TESTED(getline);
TESTED(getchar);
TESTED(fflush);
TESTED(fopen);
TESTED(fclose);
TESTED(sscanf);
TESTED(exit);
TESTED(atexit);
TESTED(on_exit);
TESTED(_exit);
TESTED(quick_exit);
TESTED(at_quick_exit);
TESTED(abort);
TESTED(fork);
TESTED(signal);
TESTED(raise);
TESTED(free);
TESTED(malloc);
TESTED(pthread_create);
TESTED(pthread_exit);
TESTED(pthread_cancel);
TESTED(pthread_self);
extern int t___isoc99_sscanf(const char *, const char *, ...);
extern void t___assert_fail(const char *, const char *, unsigned, const char *);
extern char *t___strcpy_chk(char *, const char *, size_t);
extern int t___cxa_atexit(void (*)(void *), void *, void *);

#define BYTES 100001

static char wrote[BYTES], got[BYTES];

static void reads_and_writes(int file)
{
    uint64_t seed = 9;
    for (size_t i = 0; i < BYTES; i++)
        wrote[i] = (char)next_random(&seed);
    CHECK(t_write(file, wrote, BYTES) == BYTES);
    CHECK(t_pread(file, got, BYTES + 0ul, 0) == BYTES && memcmp(got, wrote, BYTES) == 0);
    CHECK(t_pwrite(file, "middle", 6, 50000) == 6);
    CHECK(lseek(file, 49999, SEEK_SET) == 49999);
    CHECK(t_read(file, got, BYTES) == BYTES - 49999);
    CHECK(memcmp(got + 1, "middle", 6) == 0 && got[0] == wrote[49999]);
    CHECK(t_read(file, got, 10) == 0);
    CHECK(t_read(-1, got, 10) == -1 && errno == EBADF);
    CHECK(t_pread(file, got, 10, -1) == -1 && errno == EINVAL);
    char *mapped = t_mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED && memcmp(mapped + 50000, "middle", 6) == 0);
    CHECK(t_msync(mapped, BYTES, MS_SYNC) == 0 && t_munmap(mapped, BYTES) == 0);
    mapped = t_mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped == MAP_FAILED && errno == EINVAL);
}

static void a_mapped_file_is_its_mapping(int file)
{
    char *mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapping != MAP_FAILED && lseek(file, 0, SEEK_SET) == 0);
    strcpy(mapping, "stored to the mapping");
    mapped_file = mapping;
    CHECK(t_pread(file, got, 6, 10) == 6 && memcmp(got, "the ma", 6) == 0);
    CHECK(t_read(file, got, 6) == 6 && memcmp(got, "stored", 6) == 0);
    CHECK(t_read(file, got, BYTES) == 94 && memcmp(got, " to the", 7) == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 100);
    CHECK(t_pwrite(file, "X", 1, 10) == 1 && mapping[10] == 'X' && mapping[11] == 'h');
    CHECK(t_fsync(file) == 0 && t_fdatasync(file) == 0);
    mapped_file = NULL;
    CHECK(t_pread(file, got, 1, 10) == 1 && got[0] == 'X' && munmap(mapping, 4096) == 0);
}

static void streams(const char *name)
{
    FILE *file = t_fopen(name, "w+");
    CHECK(t_fwrite(wrote, 3, 20000, file) == 20000);
    rewind(file);
    CHECK(t_fread(got, 7, 100000, file) == 60000 / 7 && memcmp(got, wrote, 59997) == 0);
    CHECK(t_fread(got, 0, 7, file) == 0);
    rewind(file);
    CHECK(ftruncate(fileno(file), 0) == 0);
    CHECK(t_fputs("a short line\n", file) >= 0);
    for (int i = 0; i < 9000; i++)
        fputc('x', file);
    CHECK(t_fprintf(file, "%s", "\nthe last") == 9);
    rewind(file);
    CHECK(t_fgets(got, 8, file) == got && strcmp(got, "a short") == 0);
    CHECK(t_fgets(got, BYTES, file) == got && strcmp(got, " line\n") == 0);
    CHECK(t_fgets(got, BYTES, file) == got && strlen(got) == 9001);
    CHECK(t_fgets(got, BYTES, file) == got && strcmp(got, "the last") == 0);
    CHECK(t_fgets(got, BYTES, file) == NULL);
    rewind(file);
    char *line = t_malloc(4);
    size_t room = 4;
    CHECK(t_getline(&line, &room, file) == 13 && strcmp(line, "a short line\n") == 0);
    CHECK(t_getline(&line, &room, file) == 9001 && room > 9001);
    CHECK(t_getline(&line, &room, file) == 8 && t_getline(&line, &room, file) == -1);
    t_free(line);
    t_fclose(file);
}

static void formats(void)
{
    char text[2000];
    int a, b;
    CHECK(t_snprintf(text, 4, "%d", 12345) == 5 && strcmp(text, "123") == 0);
    CHECK(t_snprintf(text, 0, "%d", 1) == 1 && text[0] == '1');
    CHECK(t_snprintf(NULL, 0, "%1000d", 1) == 1000);
    CHECK(t_sprintf(text, "%*d|%s", 1200, 7, "end") == 1204);
    CHECK(strlen(text) == 1204 && strcmp(text + 1199, "7|end") == 0);
    CHECK(t_snprintf(text, 700, "%1000d", 1) == 1000 && strlen(text) == 699);
    char *made;
    CHECK(t_asprintf(&made, "%s %d %.2f", "one", 2, 3.0) == 10);
    CHECK(strcmp(made, "one 2 3.00") == 0);
    t_free(made);
    CHECK(t_sscanf("5 6", "%d %d", &a, &b) == 2 && a == 5 && b == 6);
    CHECK(t___isoc99_sscanf("7 8", "%d %d", &a, &b) == 2 && a == 7 && b == 8);
}

void test_files(void)
{
    char name[] = "/tmp/seawall-support-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    reads_and_writes(file);
    a_mapped_file_is_its_mapping(file);
    close(file);
    streams(name);
    unlink(name);
    formats();
}

/* ---- programs ---- */

#define PROGRAM(name)                                                                              \
    static int name(int count __attribute__((unused)), char **arguments __attribute__((unused)),   \
                    char **environment __attribute__((unused)))

static void say(void *text)
{
    t_printf("%s", (char *)text);
}

static void say_first(void)
{
    say("first ");
}

static void say_last(void)
{
    say("last ");
}

static void say_status(int status, void *text)
{
    t_printf("%s%d ", (char *)text, status);
}

PROGRAM(ends_by_exit)
{
    t_atexit(say_last);
    t_on_exit(say_status, "status=");
    t___cxa_atexit(say, "object ", NULL);
    t_atexit(say_first);
    return 3;
}

static void *exits(void *argument)
{
    t_puts("from a thread");
    t_exit(*(int *)argument);
    return NULL;
}

PROGRAM(ends_by_a_thread)
{
    int code = 9;
    pthread_t thread;
    t_pthread_create(&thread, NULL, exits, &code);
    for (;;)
        usleep(1000);
    return 0;
}

static void *outlives(void *argument)
{
    usleep(20000);
    t_puts("still there");
    return argument;
}

PROGRAM(main_thread_ends_first)
{
    pthread_t thread;
    t_pthread_create(&thread, NULL, outlives, NULL);
    t_pthread_exit(NULL);
    return 5;
}

PROGRAM(fails_an_assertion)
{
    t___assert_fail("1 == 2", "file.c", 12, "f");
    return 0;
}

PROGRAM(overflows)
{
    char small[4];
    t___strcpy_chk(small, "too long", sizeof small);
    return 0;
}

PROGRAM(ends_at_once)
{
    t_atexit(say_last);
    t_printf("not flushed");
    t__exit(4);
    return 0;
}

PROGRAM(ends_quickly)
{
    t_atexit(say_first);
    t_at_quick_exit(say_last);
    t_quick_exit(6);
    return 0;
}

PROGRAM(aborts)
{
    t_abort();
    return 0;
}

PROGRAM(forks)
{
    return t_fork();
}

PROGRAM(cancels)
{
    return t_pthread_cancel(t_pthread_self());
}

PROGRAM(waits_for_input)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    dup2(ends[0], 0);
    return t_getchar();
}

PROGRAM(reads_nothing)
{
    dup2(open("/dev/null", O_RDONLY), 0);
    return t_getchar() == EOF ? 8 : 0;
}

static volatile int handled;

static void handle(int number)
{
    handled = number;
}

PROGRAM(signals_itself)
{
    CHECK(t_signal(SIGUSR1, handle) == SIG_DFL);
    CHECK(t_raise(SIGUSR1) == 0 && handled == SIGUSR1);
    CHECK(t_signal(SIGUSR1, SIG_DFL) == handle);
    t_raise(SIGTERM);
    return 0;
}

PROGRAM(frees_twice)
{
    void *memory = t_malloc(100);
    t_free(memory);
    t_free(memory);
    return 0;
}

static const struct {
    int (*program)(int, char **, char **);
    int code;
    const char *output;
} programs[] = {
    {ends_by_exit, 3, "first object status=3 last "},
    {ends_by_a_thread, 9, "from a thread\n"},
    {main_thread_ends_first, 0, "still there\n"},
    {fails_an_assertion, 134, "file.c:12: f: Assertion `1 == 2' failed.\n"},
    {overflows, 134, "*** buffer overflow detected ***: terminated\n"},
    {ends_at_once, 4, ""},
    {ends_quickly, 6, ""},
    {aborts, 134, ""},
    {forks, REFUSED, "unsupported: fork\n"},
    {cancels, REFUSED, "unsupported: pthread_cancel\n"},
    {waits_for_input, REFUSED,
     "unsupported: input that is not from a file (give one with --input)\n"},
    {reads_nothing, 8, ""},
    {signals_itself, 128 + SIGTERM, ""},
    {frees_twice, 134, "free(): invalid pointer\n"},
};

void test_exit(void)
{
    char output[1000];
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        int code = run_program(programs[i].program, output, sizeof output);
        if (code != programs[i].code || strcmp(output, programs[i].output) != 0) {
            fprintf(stderr, "program %zu ended with %d and said: %s\n", i, code, output);
            _Exit(1);
        }
    }
}
