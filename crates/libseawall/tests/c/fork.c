/*
 * A program with an open pool forks; its child does something to its copy of the pool; the parent
 * goes on, and is killed soon after. All that the parent was told is done must be there.
 *
 *     fork HOW POOL OTHER
 */
#include <libseawall.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between fork and kill the logs are written full, and begin anew, several times. */
enum { GOOD = 7, BEFORE = 300, UNTIL = 3000 };

/* What parent and child share besides. */
struct shared {
    volatile int goes;
    volatile int code;
};

static const char *path, *other;
static sw_pool *pool;
static sw_ref root;
static struct shared *shared;
static int returns;
/* The line of the first check that does not hold; 0 if all do. */
static int failed;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what) && failed == 0) {                                                              \
            failed = __LINE__;                                                                     \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, sw_error_text());               \
        }                                                                                          \
    } while (0)

static int says_why(void)
{
    const char *text = sw_error_text();
    return strstr(text, "before this process was forked") && strstr(text, "daemon");
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        CHECK((call) == SW_MISUSE);                                                                \
        CHECK(says_why());                                                                         \
    } while (0)

static void put(uint64_t key)
{
    uint64_t value = 3 * key;
    CHECK(sw_map_put(pool, root, &key, 8, &value, 8, NULL) == SW_OK);
    CHECK(sw_omap_put(pool, root + 64, key, value, NULL) == SW_OK);
}

static void makes(const char *at)
{
    CHECK(sw_pool_create(at, NULL, &pool) == SW_OK);
    CHECK(sw_pool_root(pool, &root, NULL) == SW_OK);
    CHECK(sw_map_create(pool, root) == SW_OK);
    CHECK(sw_omap_create(pool, root + 64) == SW_OK);
}

static sw_cursor *cursor;
static void *place;

/* Every kind of call on the pool. */
static void calls(void)
{
    uint64_t number = 5;
    sw_tx tx;
    sw_ref ref;
    sw_cursor *second;
    struct sw_defragmented done;
    const void *bytes;
    size_t count;
    REFUSED(sw_pool_root(pool, &ref, NULL));
    REFUSED(sw_tx_begin(pool, SW_REDO, &tx));
    REFUSED(sw_tx_begin(pool, SW_UNDO, &tx));
    REFUSED(sw_map_put(pool, root, &number, 8, &number, 8, NULL));
    REFUSED(sw_map_get(pool, root, &number, 8, &number, 8, &count));
    REFUSED(sw_map_check(pool, root));
    REFUSED(sw_map_count(pool, root, &number));
    REFUSED(sw_map_cursor(pool, root, &second));
    REFUSED(sw_cursor_next(cursor, &bytes, &count, &bytes, &count));
    REFUSED(sw_omap_put(pool, root + 64, 5, 5, NULL));
    REFUSED(sw_omap_get(pool, root + 64, 5, &number));
    REFUSED(sw_omap_check(pool, root + 64));
    REFUSED(sw_defragment(pool, 1, &done));
    REFUSED(sw_persist(pool, place, 8));
    REFUSED(sw_drain(pool));
    CHECK(sw_direct(pool, root) == NULL && says_why());
    CHECK(sw_ref_of(pool, place) == 0 && says_why());
    CHECK(strlen(sw_pool_durability_text(pool)) == 0 && says_why());
}

static void close_it(void)
{
    CHECK(sw_pool_close(pool) == SW_OK);
    CHECK(sw_pool_root(pool, NULL, NULL) == SW_MISUSE && strstr(sw_error_text(), "closed"));
    CHECK(sw_pool_close(pool) == SW_MISUSE);
}

static void exits(void)
{
    exit(failed ? 1 : GOOD);
}

static void execs(void)
{
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    failed = __LINE__;
}

static void returns_from_main(void)
{
    returns = 1;
}

/* A pool of the child's own, with what the parent's has. */
static void own(void)
{
    sw_pool *parents = pool, *second;
    CHECK(sw_pool_open(path, NULL, &second) == SW_IN_USE);
    CHECK(strstr(sw_error_text(), path) != NULL);
    unlink(other);
    makes(other);
    for (int key = 0; key < 100; key++)
        put(key);
    sw_tx tx;
    CHECK(sw_tx_begin(pool, SW_UNDO, &tx) == SW_OK);
    CHECK(sw_tx_store64(tx, root, 128, 9) == SW_OK);
    CHECK(sw_tx_commit(tx) == SW_OK);
    second = pool;
    pool = parents;
    calls();
    CHECK(sw_pool_close(parents) == SW_OK);
    CHECK(sw_map_check(second, root) == SW_OK);
    CHECK(sw_pool_close(second) == SW_OK);
}

static void forks_again(void)
{
    pid_t child = fork();
    if (child == 0) {
        calls();
        close_it();
        _exit(failed ? 1 : GOOD);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
}

/* The child that the bare system call makes, of which the C library knows nothing. */
static void unseen(void)
{
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        calls();
        close_it();
        _exit(failed ? 1 : GOOD);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
}

/* A store by a pointer that the parent had. */
static void pointer(void)
{
    for (int is_bare = 0; is_bare < 2; is_bare++) {
        pid_t child = is_bare ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (child == 0) {
            *(volatile uint64_t *)place = 1;
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

static const struct {
    const char *name;
    void (*act)(void);
} WAYS[] = {
    {"close", close_it}, {"exit", exits}, {"exec", execs},         {"return", returns_from_main},
    {"calls", calls},    {"own", own},    {"again", forks_again},  {"unseen", unseen},
    {"pointer", pointer},
};

static void wait_for(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    shared->code = WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* Forks, and is killed when the child has ended; but the child returns. */
static void forks(void (*act)(void), uint64_t keys)
{
    for (uint64_t key = 0; key < BEFORE; key++)
        put(key);
    pid_t child = fork();
    if (child == 0) {
        while (!shared->goes)
            usleep(100);
        act();
        return;
    }
    for (uint64_t key = BEFORE; key < UNTIL; key++)
        put(key);
    shared->goes = 1;
    wait_for(child);
    for (uint64_t key = UNTIL; key < keys; key++)
        put(key);
    if (!failed)
        kill(getpid(), SIGKILL);
}

/* The process forks in a transaction. */
static int transaction(const char *way)
{
    sw_tx tx;
    sw_ref ref;
    uint64_t number = 1;
    put(0);
    CHECK(sw_tx_begin(pool, strcmp(way, "tx-redo") ? SW_UNDO : SW_REDO, &tx) == SW_OK);
    CHECK(sw_tx_map_put(tx, root, &number, 8, &(uint64_t){3}, 8, NULL) == SW_OK);
    CHECK(sw_tx_omap_put(tx, root + 64, 1, 3, NULL) == SW_OK);
    pid_t child = fork();
    if (child == 0) {
        if (!strcmp(way, "tx-close")) {
            close_it();
            exit(failed ? 1 : GOOD);
        }
        if (!strcmp(way, "tx-exit"))
            exit(GOOD);
        REFUSED(sw_tx_store64(tx, root, 128, 5));
        REFUSED(sw_tx_load64(tx, root, 128, &number));
        REFUSED(sw_tx_add(tx, root, 128, 8));
        REFUSED(sw_tx_alloc(tx, 64, &ref));
        REFUSED(sw_tx_free(tx, root + 4096));
        REFUSED(sw_tx_map_put(tx, root, &number, 8, &number, 8, NULL));
        REFUSED(!strcmp(way, "tx-redo") ? sw_tx_abort(tx) : sw_tx_commit(tx));
        calls();
        own();
        exit(failed ? 1 : GOOD);
    }
    wait_for(child);
    CHECK(sw_tx_commit(tx) == SW_OK);
    kill(getpid(), SIGKILL);
    return 0;
}

static volatile int ends;

static void *works(void *argument)
{
    (void)argument;
    uint64_t number = 1000;
    while (!ends) {
        sw_map_put(pool, root, &number, 8, &number, 8, NULL);
        sw_map_remove(pool, root, &number, 8);
    }
    return NULL;
}

static void *begins(void *argument)
{
    while (!ends) {
        pthread_t thread;
        pthread_create(&thread, NULL, works, argument);
        pthread_join(thread, NULL);
    }
    return NULL;
}

static void *own_in_thread(void *argument)
{
    own();
    return argument;
}

/* Forks while threads are in calls, which they have locked things for. */
static int threads(void)
{
    pthread_t thread[2], more;
    put(0);
    pthread_create(&thread[0], NULL, works, NULL);
    pthread_create(&thread[1], NULL, begins, NULL);
    for (int round = 0; round < 60 && !failed; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            calls();
            if (round % 4 == 0) {
                /* It takes a number of its own. */
                pthread_create(&more, NULL, own_in_thread, NULL);
                pthread_join(more, NULL);
            }
            _exit(failed ? 1 : GOOD);
        }
        wait_for(child);
        CHECK(shared->code == GOOD);
    }
    ends = 1;
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    put(1);
    shared->code = failed ? 1 : GOOD;
    kill(getpid(), SIGKILL);
    return 0;
}

/* The process that daemon() leaves: what it inherits is nobody's, and can be opened when it has
 * been given up. */
static int daemonizes(void)
{
    sw_pool *second;
    put(0);
    pid_t before = getpid();
    if (daemon(1, 1) != 0)
        return 1;
    while (getppid() == before)
        usleep(1000);
    calls();
    CHECK(sw_pool_open(path, NULL, &second) == SW_IN_USE);
    CHECK(sw_pool_close(pool) == SW_OK);
    CHECK(sw_pool_open(path, NULL, &pool) == SW_OK);
    put(1);
    CHECK(sw_pool_close(pool) == SW_OK);
    shared->code = failed ? 1 : GOOD;
    shared->goes = 1;
    return 0;
}

static int parent(const char *how, uint64_t keys)
{
    unlink(path);
    makes(path);
    place = sw_direct(pool, root + 256);
    put(0);
    CHECK(sw_map_cursor(pool, root, &cursor) == SW_OK);
    for (size_t way = 0; way < sizeof WAYS / sizeof *WAYS; way++) {
        if (!strcmp(how, WAYS[way].name)) {
            forks(WAYS[way].act, keys);
            return failed ? 1 : GOOD;
        }
    }
    if (!strncmp(how, "tx", 2))
        return transaction(how);
    if (!strcmp(how, "threads"))
        return threads();
    return strcmp(how, "daemon") ? 2 : daemonizes();
}

/* Gives whether all of the parent's keys are there. */
static int look(uint64_t keys)
{
    uint64_t wrong = 0;
    if (sw_pool_open(path, NULL, &pool) != SW_OK)
        return printf("open: %s\n", sw_error_text()), 0;
    sw_pool_root(pool, &root, NULL);
    for (uint64_t key = 0; key < keys; key++) {
        uint64_t value = 0;
        size_t bytes;
        wrong += sw_map_get(pool, root, &key, 8, &value, 8, &bytes) != SW_OK || value != 3 * key;
        wrong += sw_omap_get(pool, root + 64, key, &value) != SW_OK || value != 3 * key;
    }
    wrong += sw_map_check(pool, root) != SW_OK || sw_omap_check(pool, root + 64) != SW_OK;
    sw_pool_close(pool);
    if (wrong > 0)
        printf("%lu wrong of %lu\n", (unsigned long)wrong, (unsigned long)keys);
    return wrong == 0;
}

static int try(const char *how, uint64_t keys)
{
    memset(shared, 0, sizeof *shared);
    pid_t process = fork();
    if (process == 0) {
        int code = parent(how, keys);
        if (returns)
            return -1;
        exit(code);
    }
    int status;
    waitpid(process, &status, 0);
    if (!strcmp(how, "daemon"))
        while (!shared->goes)
            usleep(1000);
    else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return printf("%s: the parent ends with %x\n", how, (unsigned)status), 0;
    if (shared->code != GOOD)
        return printf("%s: the child ends with %d\n", how, shared->code), 0;
    return look(keys);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    path = argv[2];
    other = argv[3];
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int is_long = 0;
    for (size_t way = 0; way < sizeof WAYS / sizeof *WAYS; way++)
        is_long |= !strcmp(argv[1], WAYS[way].name);
    for (uint64_t more = 0; more < (is_long ? 12 : 1); more++) {
        int outcome = try(argv[1], is_long ? UNTIL + more : 2);
        if (outcome < 0)
            return GOOD;
        if (outcome == 0)
            return printf("%s, %d more\n", argv[1], (int)more), 1;
    }
    return 0;
}
