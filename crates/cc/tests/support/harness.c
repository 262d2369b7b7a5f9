/* The page of the machine, with real threads and the real clock behind it, so that the support
 * library can be tested without a simulator, and under real concurrency. */
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 0x5ea00000ul
#define CORES 48
#define HEAP_BYTES (1ul << 32)

static __thread uint64_t number;
static __thread int host_brackets;

static pthread_mutex_t cores_lock = PTHREAD_MUTEX_INITIALIZER;
static bool core_is_used[CORES] = {true};

struct start {
    void *(*run)(void *);
    void *argument;
    uint64_t number;
};

static void thread_exit(void)
{
    pthread_mutex_lock(&cores_lock);
    core_is_used[number] = false;
    pthread_mutex_unlock(&cores_lock);
    pthread_exit(NULL);
}

static void *begin(void *memory)
{
    struct start start = *(struct start *)memory;
    free(memory);
    number = start.number;
    start.run(start.argument);
    thread_exit();
    return NULL;
}

static uint64_t thread_start(void *(*run)(void *), void *argument)
{
    uint64_t core = 0;
    pthread_mutex_lock(&cores_lock);
    while (core < CORES && core_is_used[core])
        core++;
    if (core < CORES)
        core_is_used[core] = true;
    pthread_mutex_unlock(&cores_lock);
    if (core == CORES)
        return 0;
    struct start *start = malloc(sizeof *start);
    *start = (struct start){run, argument, core};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, begin, start) == 0);
    pthread_detach(thread);
    return core;
}

static uint64_t thread_self(void)
{
    return number;
}

static uint64_t wait_while(volatile uint64_t *word, uint64_t value)
{
    CHECK(host_brackets == 0);
    CHECK((uintptr_t)word % 8 == 0);
    uint64_t seen;
    for (unsigned turn = 0; (seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == value; turn++) {
        if (turn % 4 == 3)
            sched_yield();
    }
    return seen;
}

static uint64_t nanoseconds(void)
{
    static uint64_t start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t shown = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (start == 0)
        start = shown;
    return shown - start;
}

static void end(int code)
{
    _exit(code);
}

static void unsupported(const char *name)
{
    dprintf(2, "unsupported: %s\n", name);
    _exit(REFUSED);
}

static intptr_t map(void *at, size_t bytes, int protection, int flags, int file, int64_t offset)
{
    void *mapped = mmap(at, bytes, protection, flags, file, offset);
    return mapped == MAP_FAILED ? -errno : (intptr_t)mapped;
}

static intptr_t unmap(void *at, size_t bytes)
{
    return munmap(at, bytes) == 0 ? 0 : -errno;
}

static intptr_t sync_map(void *at, size_t bytes, int flags)
{
    return msync(at, bytes, flags) == 0 ? 0 : -errno;
}

size_t heap_bytes;

static void *heap_grow(size_t bytes)
{
    static char *heap;
    if (heap == NULL) {
        heap = mmap((void *)0x200000000000, HEAP_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(heap != MAP_FAILED);
    }
    CHECK(bytes % 4096 == 0);
    if (bytes > HEAP_BYTES - heap_bytes)
        return NULL;
    heap_bytes += bytes;
    return heap + heap_bytes - bytes;
}

static void host_begin(void)
{
    CHECK(host_brackets == 0);
    host_brackets = 1;
}

static void host_end(void)
{
    CHECK(host_brackets == 1);
    host_brackets = 0;
}

static void yield(void)
{
    CHECK(host_brackets == 0);
    sched_yield();
}

unsigned threads_left(void)
{
    unsigned left = 0;
    pthread_mutex_lock(&cores_lock);
    for (int core = 1; core < CORES; core++)
        left += core_is_used[core];
    pthread_mutex_unlock(&cores_lock);
    return left;
}

static uint64_t cores(void)
{
    return CORES;
}

static void ignore(void)
{
}

char *mapped_file;

uint64_t futex_waits, futex_wakes;

static char *mapped(int file, int64_t offset, size_t *bytes)
{
    if (mapped_file == NULL)
        return NULL;
    off_t at = offset < 0 ? lseek(file, 0, SEEK_CUR) : offset;
    size_t left = at < 100 ? 100 - (size_t)at : 0;
    if (left == 0)
        return NULL;
    *bytes = *bytes < left ? *bytes : left;
    return mapped_file + at;
}

/* The kernel's own. */
static int64_t futex_wait(volatile uint32_t *word, uint32_t value, uint64_t deadline)
{
    CHECK(host_brackets == 0);
    CHECK((uintptr_t)word % 4 == 0);
    uint64_t now = nanoseconds();
    uint64_t left = deadline > now ? deadline - now : 0;
    struct timespec time = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    __atomic_fetch_add(&futex_waits, 1, __ATOMIC_SEQ_CST);
    long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
                          deadline == UINT64_MAX ? NULL : &time, NULL, 0);
    return result == 0 ? 0 : errno == EINTR ? -EAGAIN : -errno;
}

static uint64_t futex_wake(volatile uint32_t *word, uint64_t most)
{
    CHECK(host_brackets == 0);
    __atomic_fetch_add(&futex_wakes, 1, __ATOMIC_SEQ_CST);
    return (uint64_t)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, (int)most, NULL, NULL, 0);
}

static intptr_t protect(const void *at, size_t bytes, int access)
{
    return mprotect((void *)at, bytes, access) == 0 ? 0 : -errno;
}

static int resize(int file, int64_t bytes)
{
    (void)file, (void)bytes;
    return 0;
}

static int sync_files(int which, int file, int64_t offset, size_t bytes)
{
    (void)which, (void)file, (void)offset, (void)bytes;
    return 0;
}

static void end_by(int signal)
{
    _exit(128 + signal);
}

static void fill_page(void)
{
    void *page = mmap((void *)PAGE, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(page == (void *)PAGE);
    void *calls[] = {
        thread_start, thread_exit, thread_self, wait_while, nanoseconds, end,
        unsupported,  map,         unmap,       sync_map,   heap_grow,   host_begin,
        host_end,     ignore,      ignore,      ignore,     ignore,      ignore,
        yield,        cores,       ignore,      ignore,      mapped,      futex_wait,
        futex_wake,   protect,     resize,      ignore,      end_by,      sync_files,
        ignore,
    };
    memcpy((char *)page + 0x200, calls, sizeof calls);
}

extern void t_sw_run_main(int (*)(int, char **, char **), int, char **, char **);

int run_program(int (*program)(int, char **, char **), char *output, size_t room)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {(char *)"program", NULL};
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        t_sw_run_main(program, 1, arguments, arguments + 1);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], output + length, room - 1 - length)) > 0)
        length += (size_t)got;
    output[length] = 0;
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Runs a program that was linked with the support library as a shared object, as seawall does it:
 * its own functions come before those of the C library, also for libraries that it brings along. */
static void run_shared(int count, char **arguments)
{
    void *program = dlopen(arguments[0], RTLD_NOW | RTLD_DEEPBIND);
    if (program == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(program != NULL);
    void (*run)(void *, int, char **, char **) =
        (void (*)(void *, int, char **, char **))dlsym(program, "sw_run_main");
    run(dlsym(program, "main"), count, arguments, environ);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"memory", test_memory},   {"strings", test_strings},       {"sort", test_sort},
        {"heap", test_heap},       {"locks", test_locks},           {"conditions", test_conditions},
        {"threads", test_threads}, {"futex", test_futex},           {"time", test_time},
        {"files", test_files},     {"exit", test_exit},
    };
    fill_page();
    /* No test takes so long unless threads wait for each other for ever. */
    alarm(60);
    if (count > 2 && strcmp(arguments[1], "run") == 0)
        run_shared(count - 2, arguments + 2);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (count < 2 || strcmp(arguments[1], tests[i].name) == 0)
            tests[i].run();
    }
    return 0;
}
