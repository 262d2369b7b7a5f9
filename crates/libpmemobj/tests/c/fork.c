/* A program with an open pool forks; its child does something to its copy of the pool; the parent goes
 * on, and is killed soon after. All that the parent was told is done must be there.
 *
 *     fork HOW POOL OTHER
 */

#include <errno.h>
#include <libpmemobj.h>
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
enum { GOOD = 7, SLOTS = 400, JUNK = 64, BEFORE = 300, UNTIL = 3000 };

struct root {
	uint64_t count;
	PMEMoid slots[SLOTS];
	PMEMmutex mutex;
	PMEMrwlock rwlock;
	uint64_t junk[JUNK];
};

/* What parent and child share besides. */
struct shared {
	volatile int goes;
	volatile int code;
};

static const char *path, *other;
static PMEMobjpool *pool;
static struct root *root;
static PMEMoid root_oid;
static struct shared *shared;
static int returns;

/* The line of the first check that does not hold; 0 if all do. */
static int failed;

#define CHECK(what)\
	do {\
		if (!(what) && failed == 0) {\
			failed = __LINE__;\
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, pmemobj_errormsg());\
		}\
	} while (0)

static int says_why(void)
{
	const char *text = pmemobj_errormsg();
	return strstr(text, "before this process was forked") && strstr(text, "daemon");
}

/* The call is an error that says why. */
#define REFUSED(call)\
	do {\
		errno = 0;\
		CHECK(call);\
		CHECK(errno == EINVAL && says_why());\
	} while (0)

static int nothing(PMEMobjpool *pop, void *object, void *argument)
{
	(void)pop, (void)object, (void)argument;
	return 0;
}

static void put(uint64_t key)
{
	TX_BEGIN(pool) {
		PMEMoid *slot = &root->slots[key % SLOTS];
		pmemobj_tx_add_range_direct(slot, sizeof *slot);
		pmemobj_tx_add_range_direct(&root->count, 8);
		*slot = pmemobj_tx_alloc(64, 1);
		uint64_t *object = pmemobj_direct(*slot);
		object[0] = key;
		object[7] = ~key;
		root->count = key + 1;
	} TX_ONABORT {
		CHECK(0);
	} TX_END
}

/* Every kind of call on the pool. */
static void calls(void)
{
	PMEMoid place = OID_NULL, oid = {root_oid.pool_uuid_lo, 4096};
	struct pobj_action action;
	int number = 0;
	REFUSED(pmemobj_alloc(pool, &place, 64, 9, nothing, NULL) == -1);
	REFUSED(pmemobj_xalloc(pool, &place, 64, 9, POBJ_CLASS_ID(200), NULL, NULL) == -1);
	REFUSED(pmemobj_strdup(pool, &place, "text", 1) == -1);
	REFUSED(OID_IS_NULL(pmemobj_root(pool, 10)));
	REFUSED(pmemobj_root_size(pool) == 0);
	REFUSED(OID_IS_NULL(pmemobj_first(pool)));
	REFUSED(OID_IS_NULL(pmemobj_next(oid)));
	REFUSED(OID_IS_NULL(pmemobj_reserve(pool, &action, 64, 1)));
	REFUSED(pmemobj_publish(pool, &action, 0) != 0);
	REFUSED(pmemobj_mutex_lock(pool, &root->mutex) == EINVAL);
	REFUSED(pmemobj_rwlock_wrlock(pool, &root->rwlock) == EINVAL);
	REFUSED(pmemobj_list_insert(pool, 0, root, OID_NULL, 0, oid) == -1);
	REFUSED(pmemobj_ctl_get(pool, "heap.narenas.total", &number) == -1);
	REFUSED(pmemobj_get_user_data(pool) == NULL);
	REFUSED((pmemobj_free(&oid), !OID_IS_NULL(oid)));
	REFUSED(pmemobj_type_num(oid) == 0);
	REFUSED(pmemobj_pool_by_oid(oid) == NULL);
	REFUSED(pmemobj_pool_by_ptr(root) == NULL);
	REFUSED(OID_IS_NULL(pmemobj_oid(root)));
	int stages = 0;
	TX_BEGIN(pool) {
		stages += 1;
	} TX_ONABORT {
		stages += 10;
	} TX_END
	CHECK(stages == 10 && pmemobj_tx_errno() == EINVAL && says_why());
}

static void close_it(void)
{
	pmemobj_close(pool);
	errno = 0;
	CHECK(pmemobj_root_size(pool) == 0 && errno == EINVAL && !says_why());
	pmemobj_close(pool);
	CHECK(strstr(pmemobj_errormsg(), "never opened") != NULL);
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
	PMEMobjpool *parents = pool;
	CHECK(pmemobj_open(path, "fork") == NULL && errno == EWOULDBLOCK);
	CHECK(strstr(pmemobj_errormsg(), path) != NULL);
	unlink(other);
	pool = pmemobj_create(other, "fork", 8 << 20, 0600);
	CHECK(pool != NULL && pool != parents);
	root_oid = pmemobj_root(pool, sizeof *root);
	root = pmemobj_direct(root_oid);
	for (int key = 0; key < 100; key++)
		put(key);
	CHECK(pmemobj_mutex_lock(pool, &root->mutex) == 0);
	CHECK(pmemobj_mutex_unlock(pool, &root->mutex) == 0);
	errno = 0;
	CHECK(pmemobj_root_size(parents) == 0 && errno == EINVAL && says_why());
	pmemobj_close(parents);
	pmemobj_close(pool);
	CHECK(pmemobj_check(other, "fork") == 1);
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

/* How the process ends that does `act`, made by `fork` or by the bare system call. */
static int signal_of(void (*act)(void), int is_bare)
{
	pid_t child = is_bare ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (child == 0) {
		act();
		_exit(1);
	}
	int status;
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void store(void)
{
	root->junk[0] = 1;
}

static void load(void)
{
	volatile uint64_t *word = &root->count;
	(void)*word;
}

/* After as many bytes have been mapped as the pool has. */
static void store_later(void)
{
	void *hole = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (hole != MAP_FAILED)
		store();
}

static void persists(void)
{
	fclose(stderr);
	pmemobj_persist(pool, root, 8);
}

static void pointers(void)
{
	CHECK(signal_of(store, 0) == SIGSEGV);
	CHECK(signal_of(load, 0) == SIGSEGV);
	CHECK(signal_of(store, 1) == SIGSEGV);
	CHECK(signal_of(store_later, 0) == SIGSEGV);
	CHECK(signal_of(persists, 0) == SIGABRT);
}

static void works_unseen(void)
{
	pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		calls();
		pmemobj_close(pool);
		_exit(failed ? 1 : GOOD);
	}
	int status;
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
}

static const struct {
	const char *name;
	void (*act)(void);
} WAYS[] = {
	{"close", close_it},	   {"exit", exits},	     {"exec", execs},
	{"return", returns_from_main}, {"calls", calls},     {"own", own},
	{"again", forks_again},	   {"pointers", pointers},   {"unseen", works_unseen},
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

/* The transaction in which the process forks: the child's part in it. */
static void in_transaction(const char *way)
{
	struct pobj_action action;
	pmemobj_tx_set_failure_behavior(POBJ_TX_FAILURE_RETURN);
	REFUSED(pmemobj_tx_add_range_direct(&root->junk[0], 8) != 0);
	REFUSED(pmemobj_tx_add_range(root_oid, 0, 8) != 0);
	REFUSED(OID_IS_NULL(pmemobj_tx_alloc(64, 1)));
	REFUSED(OID_IS_NULL(pmemobj_tx_xalloc(64, 1, POBJ_CLASS_ID(200))));
	REFUSED(OID_IS_NULL(pmemobj_tx_strdup("text", 1)));
	REFUSED(pmemobj_tx_free(root_oid) != 0);
	REFUSED(pmemobj_tx_lock(TX_PARAM_RWLOCK, &root->rwlock) != 0);
	REFUSED(pmemobj_tx_log_append_buffer(TX_LOG_TYPE_SNAPSHOT, root->junk, 512) != 0);
	memset(&action, 0, sizeof action);
	REFUSED(pmemobj_tx_publish(&action, 1) != 0);
	pmemobj_tx_set_failure_behavior(POBJ_TX_FAILURE_ABORT);
	if (!strcmp(way, "tx-nested")) {
		/* Aborts the level outside, too: none is begun that could be ended. */
		TX_BEGIN(pool) {
			CHECK(0);
		} TX_END
		CHECK(0);
	}
}

static int transaction(const char *way)
{
	pid_t child = -1;
	volatile int stages = 0, is_child = 0;
	put(0);
	TX_BEGIN_PARAM(pool, TX_PARAM_MUTEX, &root->mutex, TX_PARAM_NONE) {
		pmemobj_tx_add_range_direct(&root->count, 8);
		root->count = 2;
		child = fork();
		if (child == 0) {
			is_child = 1;
			if (!strcmp(way, "tx-exit"))
				exit(GOOD);
			if (!strcmp(way, "tx-close")) {
				pmemobj_close(pool);
				exit(GOOD);
			}
			if (!strcmp(way, "tx-abort"))
				pmemobj_tx_abort(ECANCELED);
			if (!strcmp(way, "tx-calls") || !strcmp(way, "tx-nested"))
				in_transaction(way);
		} else {
			wait_for(child);
		}
		stages += 1;
	} TX_ONABORT {
		stages += 10;
	} TX_ONCOMMIT {
		stages += 100;
	} TX_FINALLY {
		stages += 1000;
	} TX_END
	if (is_child) {
		CHECK(stages / 10 == 101);
		CHECK(pmemobj_tx_stage() == TX_STAGE_NONE && pmemobj_tx_errno() != 0);
		calls();
		own();
		exit(failed ? 1 : GOOD);
	}
	CHECK(stages == 1101);
	CHECK(pmemobj_mutex_trylock(pool, &root->mutex) == 0);
	kill(getpid(), SIGKILL);
	return 0;
}

static int constructs(PMEMobjpool *pop, void *object, void *argument)
{
	(void)pop, (void)object;
	pid_t child = fork();
	*(pid_t *)argument = child;
	if (child > 0)
		wait_for(child);
	return 0;
}

/* A fork in a constructor. */
static int constructor(void)
{
	pid_t child;
	PMEMoid oid = OID_NULL;
	put(0);
	errno = 0;
	int outcome = pmemobj_alloc(pool, &oid, 64, 1, constructs, &child);
	if (child == 0) {
		CHECK(outcome == -1 && errno == EINVAL && says_why());
		calls();
		exit(failed ? 1 : GOOD);
	}
	CHECK(outcome == 0);
	put(1);
	kill(getpid(), SIGKILL);
	return 0;
}

static volatile int ends;

static void *works(void *argument)
{
	(void)argument;
	while (!ends) {
		PMEMoid oid = OID_NULL;
		pmemobj_mutex_lock(pool, &root->mutex);
		pmemobj_alloc(pool, &oid, 64, 9, NULL, NULL);
		pmemobj_free(&oid);
		pmemobj_mutex_unlock(pool, &root->mutex);
	}
	return NULL;
}

static void *opens(void *argument)
{
	(void)argument;
	char name[4096];
	snprintf(name, sizeof name, "%s2", other);
	unlink(name);
	PMEMobjpool *mine = pmemobj_create(name, "fork", 8 << 20, 0600);
	while (!ends && mine != NULL) {
		pmemobj_close(mine);
		mine = pmemobj_open(name, "fork");
	}
	CHECK(mine != NULL);
	return NULL;
}

/* Forks while threads are in calls, which they have locked things for. */
static int threads(void)
{
	pthread_t thread[3];
	put(0);
	pthread_create(&thread[0], NULL, works, NULL);
	pthread_create(&thread[1], NULL, works, NULL);
	pthread_create(&thread[2], NULL, opens, NULL);
	for (int round = 0; round < 60 && !failed; round++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(30);
			calls();
			if (round % 4 == 0)
				own();
			_exit(failed ? 1 : GOOD);
		}
		wait_for(child);
		CHECK(shared->code == GOOD);
	}
	ends = 1;
	for (int number = 0; number < 3; number++)
		pthread_join(thread[number], NULL);
	put(1);
	shared->code = failed ? 1 : GOOD;
	kill(getpid(), SIGKILL);
	return 0;
}

/* The process that daemon() leaves: what it inherits is nobody's, and can be opened when it has been
 * given up. */
static int daemonizes(void)
{
	put(0);
	pid_t before = getpid();
	if (daemon(1, 1) != 0)
		return 1;
	while (getppid() == before)
		usleep(1000);
	calls();
	CHECK(pmemobj_open(path, "fork") == NULL && errno == EWOULDBLOCK);
	pmemobj_close(pool);
	pool = pmemobj_open(path, "fork");
	CHECK(pool != NULL);
	root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
	put(1);
	pmemobj_close(pool);
	shared->code = failed ? 1 : GOOD;
	shared->goes = 1;
	return 0;
}

static int parent(const char *how, uint64_t keys)
{
	unlink(path);
	pool = pmemobj_create(path, "fork", 64 << 20, 0600);
	if (pool == NULL)
		return 2;
	root_oid = pmemobj_root(pool, sizeof *root);
	root = pmemobj_direct(root_oid);
	for (size_t way = 0; way < sizeof WAYS / sizeof *WAYS; way++) {
		if (!strcmp(how, WAYS[way].name)) {
			forks(WAYS[way].act, keys);
			return failed ? 1 : GOOD;
		}
	}
	if (!strncmp(how, "tx", 2))
		return transaction(how);
	if (!strcmp(how, "constructor"))
		return constructor();
	if (!strcmp(how, "threads"))
		return threads();
	if (!strcmp(how, "daemon"))
		return daemonizes();
	return 2;
}

/* Gives whether all of the parent's keys are there. */
static int look(uint64_t keys)
{
	if (pmemobj_check(path, "fork") != 1)
		return printf("check: %s\n", pmemobj_errormsg()), 0;
	pool = pmemobj_open(path, "fork");
	if (pool == NULL)
		return printf("open: %s\n", pmemobj_errormsg()), 0;
	root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
	uint64_t wrong = root->count != keys;
	for (uint64_t key = keys < SLOTS ? 0 : keys - SLOTS; key < keys; key++) {
		uint64_t *object = pmemobj_direct(root->slots[key % SLOTS]);
		wrong += key != 1 && (object == NULL || object[0] != key || object[7] != ~key);
	}
	pmemobj_close(pool);
	if (wrong > 0)
		printf("%lu wrong of %lu\n", wrong, keys);
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
		return printf("%s: the parent ends with %x\n", how, status), 0;
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
			return printf("%s, %lu more\n", argv[1], more), 1;
	}
	return 0;
}
