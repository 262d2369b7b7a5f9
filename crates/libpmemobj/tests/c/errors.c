/* What calls give for bad input: a line for each, with what it gave and errno. Texts are left out:
 * each library has its own.
 *
 *     errors FOLDER
 */

#include <errno.h>
#include <fcntl.h>
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (16UL << 20)

static char path[4096], other_path[4096];
static PMEMobjpool *pool;

#define NAME(file) (snprintf(path, sizeof(path), "%s/%s", folder, file), path)
#define SHOW(text, call)\
	do {\
		errno = 0;\
		long given = (long)(call);\
		int number = errno;\
		printf("%s: %ld errno %s\n", text, given, number ? strerrorname(number) : "0");\
	} while (0)
#define IS(call) ((call) != NULL)

static const char *strerrorname(int number)
{
	static char text[16];
	switch (number) {
	case EINVAL: return "EINVAL";
	case ENOMEM: return "ENOMEM";
	case EEXIST: return "EEXIST";
	case ENOENT: return "ENOENT";
	case EACCES: return "EACCES";
	case EAGAIN: return "EAGAIN";
	case ENOSPC: return "ENOSPC";
	case EFBIG: return "EFBIG";
	case ECANCELED: return "ECANCELED";
	case EISDIR: return "EISDIR";
	case EBUSY: return "EBUSY";
	case ETIMEDOUT: return "ETIMEDOUT";
	case ERANGE: return "ERANGE";
	}
	snprintf(text, sizeof(text), "%d", number);
	return text;
}

static void zeros(const char *file, off_t bytes)
{
	int descriptor = open(file, O_CREAT | O_TRUNC | O_RDWR, 0600);
	if (descriptor < 0 || ftruncate(descriptor, bytes) || close(descriptor))
		exit(3);
}

static void files(const char *folder)
{
	char layout[PMEMOBJ_MAX_LAYOUT + 1];
	memset(layout, 'x', sizeof(layout));
	SHOW("open nothing", IS(pmemobj_open(NAME("none"), "a")));
	SHOW("open a folder", IS(pmemobj_open(folder, "a")));
	SHOW("check nothing", pmemobj_check(NAME("none"), "a"));
	SHOW("create too small", IS(pmemobj_create(NAME("small"), "a", PMEMOBJ_MIN_POOL - 1, 0600)));
	SHOW("nothing is left", access(path, F_OK));
	SHOW("create of no size", IS(pmemobj_create(NAME("small"), "a", 0, 0600)));
	SHOW("create in no folder", IS(pmemobj_create(NAME("no/pool"), "a", SIZE, 0600)));
	layout[sizeof(layout) - 1] = 0;
	SHOW("layout too long", IS(pmemobj_create(NAME("long"), layout, SIZE, 0600)));
	layout[sizeof(layout) - 2] = 0;
	SHOW("longest layout", IS(pool = pmemobj_create(NAME("long"), layout, SIZE, 0600)));
	pmemobj_close(pool);
	SHOW("open by it", IS(pool = pmemobj_open(path, layout)));
	pmemobj_close(pool);
	SHOW("larger than any disk", IS(pmemobj_create(NAME("huge"), "a", 1UL << 60, 0600)));
	SHOW("nothing is left", access(path, F_OK));

	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, NAME("socket"), sizeof(address.sun_path) - 1);
	if (bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof(address)) ||
		mkfifo(NAME("pipe"), 0600))
		exit(3);
	const char *others[] = {NAME("pipe"), "/dev/null", "/dev/zero", address.sun_path, folder};
	for (int i = 0; i < 5; i++) {
		printf("%d: ", i);
		SHOW("open what is no file", IS(pmemobj_open(others[i], "a")));
		SHOW("create in it", IS(pmemobj_create(others[i], "a", 0, 0600)));
		SHOW("create over it", IS(pmemobj_create(others[i], "a", SIZE, 0600)));
		SHOW("check it", pmemobj_check(others[i], "a"));
	}
	zeros(NAME("zeros"), SIZE);
	SHOW("open zeros", IS(pmemobj_open(path, "a")));
	SHOW("check zeros", pmemobj_check(path, "a") == 1);
	SHOW("create in zeros", IS(pool = pmemobj_create(path, "a", 0, 0600)));
	pmemobj_close(pool);
	SHOW("create in it again", IS(pmemobj_create(path, "a", 0, 0600)));
	zeros(NAME("few"), 4096);
	SHOW("create in few bytes", IS(pmemobj_create(path, "a", 0, 0600)));
	SHOW("open few bytes", IS(pmemobj_open(path, "a")));
	zeros(NAME("size"), SIZE);
	SHOW("create over a file", IS(pmemobj_create(path, "a", SIZE, 0600)));

	struct stat status;
	umask(0022);
	SHOW("create", IS(pool = pmemobj_create(NAME("pool"), "a", SIZE, 0666)));
	SHOW("its size", (stat(path, &status), status.st_size));
	SHOW("its mode", status.st_mode & 0777);
	SHOW("open while open", IS(pmemobj_open(path, "a")));
	pmemobj_close(pool);
	SHOW("wrong layout", IS(pmemobj_open(path, "b")));
	SHOW("layout too short", IS(pmemobj_open(path, "")));
	SHOW("any layout", IS(pool = pmemobj_open(path, NULL)));
	pmemobj_close(pool);
	SHOW("check", pmemobj_check(path, "a"));
	SHOW("check of any", pmemobj_check(path, NULL));
	SHOW("cut off", truncate(path, SIZE / 2));
	SHOW("open what is cut off", IS(pmemobj_open(path, "a")));
	SHOW("remove", unlink(path));
}

static int refuse(PMEMobjpool *in, void *place, void *argument)
{
	(void)in, (void)place, (void)argument;
	return 1;
}

static void objects(void)
{
	PMEMoid root = pmemobj_root(pool, 1000);
	PMEMoid *place = pmemobj_direct(root);
	PMEMoid foreign = {12345, 4096}, oid = OID_NULL;
	SHOW("root of no size", OID_IS_NULL(pmemobj_root(pool, 0)));
	SHOW("root too large", OID_IS_NULL(pmemobj_root(pool, PMEMOBJ_MAX_ALLOC_SIZE + 1)));
	SHOW("root size", pmemobj_root_size(pool));
	SHOW("root is the same", OID_EQUALS(root, pmemobj_root(pool, 10)));
	SHOW("alloc of no size", pmemobj_alloc(pool, place, 0, 1, NULL, NULL));
	SHOW("alloc too large", pmemobj_alloc(pool, place, PMEMOBJ_MAX_ALLOC_SIZE + 1, 1, NULL, NULL));
	SHOW("alloc of all", pmemobj_alloc(pool, place, SIZE, 1, NULL, NULL));
	SHOW("alloc refused", pmemobj_alloc(pool, place, 100, 1, refuse, NULL));
	SHOW("nothing is there", OID_IS_NULL(*place) && OID_IS_NULL(pmemobj_first(pool)));
	SHOW("bad flags", pmemobj_xalloc(pool, place, 100, 1, 1 << 9, NULL, NULL));
	SHOW("alloc to nowhere", pmemobj_alloc(pool, NULL, 100, 7, NULL, NULL));
	SHOW("it is there", pmemobj_type_num(pmemobj_first(pool)));
	oid = pmemobj_first(pool);
	SHOW("free it", (pmemobj_free(&oid), OID_IS_NULL(oid)));
	SHOW("free nothing", (pmemobj_free(&oid), OID_IS_NULL(oid)));
	SHOW("realloc of nothing", pmemobj_realloc(pool, place, 100, 3));
	SHOW("its type", pmemobj_type_num(*place));
	SHOW("realloc to all", pmemobj_realloc(pool, place, SIZE, 3));
	SHOW("it is there", pmemobj_type_num(*place));
	SHOW("realloc to nothing", pmemobj_realloc(pool, place, 0, 3));
	SHOW("it is gone", OID_IS_NULL(*place));
	SHOW("realloc of none to none", pmemobj_realloc(pool, place, 0, 3));
	SHOW("strdup of nothing", pmemobj_strdup(pool, place, NULL, 3));
	SHOW("direct of null", IS(pmemobj_direct(OID_NULL)));
	SHOW("direct of foreign", IS(pmemobj_direct(foreign)));
	SHOW("pool of foreign", IS(pmemobj_pool_by_oid(foreign)));
	SHOW("pool of foreign pointer", IS(pmemobj_pool_by_ptr(&foreign)));
	SHOW("oid of foreign pointer", OID_IS_NULL(pmemobj_oid(&foreign)));
	SHOW("usable of null", pmemobj_alloc_usable_size(OID_NULL));
	SHOW("next of null", OID_IS_NULL(pmemobj_next(OID_NULL)));
	SHOW("xpersist", pmemobj_xpersist(pool, place, 8, PMEMOBJ_F_RELAXED));
	SHOW("xpersist, bad flags", pmemobj_xpersist(pool, place, 8, 1 << 9));
	SHOW("xflush, bad flags", pmemobj_xflush(pool, place, 8, 1 << 9));
	struct pobj_action action;
	SHOW("reserve of all", OID_IS_NULL(pmemobj_reserve(pool, &action, SIZE, 1)));
	SHOW("reserve, bad flags", OID_IS_NULL(pmemobj_xreserve(pool, &action, 10, 1, 1 << 9)));
	int value = 0;
	SHOW("ctl of no name", pmemobj_ctl_get(pool, "no.such.name", &value));
	SHOW("ctl not settable", pmemobj_ctl_set(pool, "stats.heap.curr_allocated", &value));
	SHOW("ctl prefault", pmemobj_ctl_get(NULL, "prefault.at_open", &value));
	SHOW("ctl wants a pool", pmemobj_ctl_get(NULL, "stats.enabled", &value));
	SHOW("version 2.4", IS(pmemobj_check_version(2, 4)));
	SHOW("version 2.5", IS(pmemobj_check_version(2, 5)));
	SHOW("version 1.0", IS(pmemobj_check_version(1, 0)));
	SHOW("most intents", pmemobj_tx_log_intents_max_size(SIZE_MAX / 2) == SIZE_MAX);
}

/* What a transaction does with a call that fails: gives its errno, and the stages it went through. */
#define IN_TX(text, call)\
	do {\
		int stages = 0;\
		errno = 0;\
		TX_BEGIN(pool) {\
			call;\
			stages += 1;\
		} TX_ONCOMMIT {\
			stages += 10;\
		} TX_ONABORT {\
			stages += 100;\
		} TX_FINALLY {\
			stages += 1000;\
		} TX_END\
		printf("tx, %s: stages %d, %s\n", text, stages, strerrorname(pmemobj_tx_errno()));\
	} while (0)

static void transactions(void)
{
	PMEMoid root = pmemobj_root(pool, 1000);
	uint64_t *words = pmemobj_direct(root);
	PMEMoid foreign = {12345, 4096};
	volatile int given;
	uint64_t elsewhere = 0;
	IN_TX("nothing", (void)0);
	IN_TX("add", pmemobj_tx_add_range(root, 0, 8));
	IN_TX("add of foreign", pmemobj_tx_add_range(foreign, 0, 8));
	IN_TX("add, foreign pointer", pmemobj_tx_add_range_direct(&elsewhere, 8));
	IN_TX("add too large", pmemobj_tx_add_range(root, 0, PMEMOBJ_MAX_ALLOC_SIZE + 1));
	IN_TX("add, bad flags", pmemobj_tx_xadd_range(root, 0, 8, 1 << 9));
	IN_TX("add of nothing", pmemobj_tx_add_range_direct(words, 0));
	IN_TX("add, no abort", given = pmemobj_tx_xadd_range_direct(&elsewhere, 8, POBJ_XADD_NO_ABORT));
	IN_TX("alloc of no size", pmemobj_tx_alloc(0, 1));
	IN_TX("alloc too large", pmemobj_tx_alloc(PMEMOBJ_MAX_ALLOC_SIZE + 1, 1));
	IN_TX("alloc of all", pmemobj_tx_alloc(SIZE, 1));
	IN_TX("alloc, no abort", pmemobj_tx_xalloc(SIZE, 1, POBJ_XALLOC_NO_ABORT));
	IN_TX("alloc, bad flags", pmemobj_tx_xalloc(8, 1, 1 << 9));
	IN_TX("free of null", pmemobj_tx_free(OID_NULL));
	IN_TX("free of foreign", pmemobj_tx_free(foreign));
	IN_TX("free, bad flags", pmemobj_tx_xfree(OID_NULL, 1 << 9));
	IN_TX("realloc of null", pmemobj_tx_realloc(OID_NULL, 10, 1));
	IN_TX("strdup of null", pmemobj_tx_strdup(NULL, 1));
	IN_TX("abort 0", pmemobj_tx_abort(0));
	IN_TX("abort", pmemobj_tx_abort(EAGAIN));
	IN_TX("set to return", (pmemobj_tx_set_failure_behavior(POBJ_TX_FAILURE_RETURN),
		given = OID_IS_NULL(pmemobj_tx_alloc(0, 1))));
	IN_TX("root", pmemobj_root(pool, 2000));
	IN_TX("log of bad type", pmemobj_tx_log_auto_alloc(9, 0));
	(void)given;

	/* A nested one that aborts takes the outer ones with it. */
	int stages = 0;
	words = pmemobj_direct(pmemobj_root(pool, 2000));
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(words, 8);
		words[0] = 7;
		TX_BEGIN(pool) {
			pmemobj_tx_abort(EBUSY);
		} TX_ONABORT {
			stages += 1;
		} TX_END
		stages += 10;
	} TX_ONABORT {
		stages += 100;
	} TX_END
	printf("nested abort: stages %d, %s, word %lu\n", stages, strerrorname(pmemobj_tx_errno()), words[0]);

	/* Without places to jump to. */
	int begun = pmemobj_tx_begin(pool, NULL, TX_PARAM_NONE);
	pmemobj_tx_abort(EBUSY);
	int stage = pmemobj_tx_stage();
	int ended = pmemobj_tx_end();
	printf("no jump: begun %d, stage %d, ended %s\n", begun, stage, strerrorname(ended));
}

static int make_class(const char *number, size_t bytes)
{
	struct pobj_alloc_class_desc class = {bytes, 0, 100, POBJ_HEADER_COMPACT, 0};
	char name[80];
	snprintf(name, sizeof(name), "heap.alloc_class.%s.desc", number);
	return pmemobj_ctl_set(pool, name, &class);
}

/* Allocation classes: numbers that are taken, or none, and sizes that there are. */
static void classes(void)
{
	static const char *const numbers[] = {
		"200", "254", "100", "255", "256", "-1", "99999999999999999999999", "x", "1", "0",
	};
	struct pobj_alloc_class_desc found;
	SHOW("new class", make_class("new", 2000));
	SHOW("its size again", make_class("new", 2000));
	SHOW("its size, by a number", make_class("201", 2000));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		SHOW(numbers[i], make_class(numbers[i], 3000 + 1000 * i));
		SHOW("a size for it again", make_class(numbers[i], 20000 + 1000 * i));
	}
	SHOW("of one", pmemobj_ctl_get(pool, "heap.alloc_class.200.desc", &found));
	SHOW("of none", pmemobj_ctl_get(pool, "heap.alloc_class.220.desc", &found));
	SHOW("of no number", pmemobj_ctl_get(pool, "heap.alloc_class.300.desc", &found));
	SHOW("below all", pmemobj_ctl_get(pool, "heap.alloc_class.-1.desc", &found));
	SHOW("by a word", pmemobj_ctl_get(pool, "heap.alloc_class.x.desc", &found));
}

static void call_back(PMEMobjpool *in, enum pobj_tx_stage stage, void *argument)
{
	printf(" %s%d", (const char *)argument, (int)stage + 10 * (stage != TX_STAGE_NONE && in != pool));
}

static void callbacks(void)
{
	printf("commit:");
	TX_BEGIN_CB(pool, call_back, "c", TX_PARAM_NONE) {
		printf(" work");
		TX_BEGIN(pool) {
			printf(" inner");
		} TX_END
	} TX_ONCOMMIT {
		printf(" oncommit");
	} TX_FINALLY {
		printf(" finally");
	} TX_END
	printf("\nabort:");
	TX_BEGIN_CB(pool, call_back, "a", TX_PARAM_NONE) {
		TX_BEGIN(pool) {
			pmemobj_tx_abort(1);
		} TX_END
	} TX_ONABORT {
		printf(" onabort");
	} TX_END
	printf("\n");
}

static void locks(void)
{
	struct {
		PMEMmutex mutex;
		PMEMrwlock rwlock;
		PMEMcond cond;
	} *all = pmemobj_direct(pmemobj_root(pool, 2000));
	all = (void *)(((uintptr_t)all + 1024));
	pmemobj_mutex_zero(pool, &all->mutex);
	pmemobj_rwlock_zero(pool, &all->rwlock);
	pmemobj_cond_zero(pool, &all->cond);
	struct timespec past = {1, 0};
	SHOW("lock", pmemobj_mutex_lock(pool, &all->mutex));
	SHOW("trylock", pmemobj_mutex_trylock(pool, &all->mutex) == EBUSY);
	SHOW("timedlock", pmemobj_mutex_timedlock(pool, &all->mutex, &past) == ETIMEDOUT);
	SHOW("wait", pmemobj_cond_timedwait(pool, &all->cond, &all->mutex, &past) == ETIMEDOUT);
	SHOW("signal", pmemobj_cond_signal(pool, &all->cond));
	SHOW("broadcast", pmemobj_cond_broadcast(pool, &all->cond));
	SHOW("unlock", pmemobj_mutex_unlock(pool, &all->mutex));
	SHOW("rdlock", pmemobj_rwlock_rdlock(pool, &all->rwlock));
	SHOW("tryrdlock", pmemobj_rwlock_tryrdlock(pool, &all->rwlock));
	SHOW("trywrlock", pmemobj_rwlock_trywrlock(pool, &all->rwlock) == EBUSY);
	SHOW("timedwrlock", pmemobj_rwlock_timedwrlock(pool, &all->rwlock, &past) == ETIMEDOUT);
	SHOW("timedrdlock", pmemobj_rwlock_timedrdlock(pool, &all->rwlock, &past));
	for (int i = 0; i < 3; i++)
		SHOW("unlock", pmemobj_rwlock_unlock(pool, &all->rwlock));
	SHOW("wrlock", pmemobj_rwlock_wrlock(pool, &all->rwlock));
	SHOW("unlock", pmemobj_rwlock_unlock(pool, &all->rwlock));
	TX_BEGIN(pool) {
		SHOW("tx lock", pmemobj_tx_lock(TX_PARAM_MUTEX, &all->mutex));
		SHOW("tx lock again", pmemobj_tx_lock(TX_PARAM_MUTEX, &all->mutex));
		SHOW("tx rwlock", pmemobj_tx_lock(TX_PARAM_RWLOCK, &all->rwlock));
		SHOW("held", pmemobj_mutex_trylock(pool, &all->mutex) == EBUSY);
	} TX_ONCOMMIT {
		SHOW("held at commit", pmemobj_mutex_trylock(pool, &all->mutex) == EBUSY);
	} TX_FINALLY {
		SHOW("held at last", pmemobj_mutex_trylock(pool, &all->mutex) == EBUSY);
	} TX_END
	SHOW("free behind it", pmemobj_mutex_trylock(pool, &all->mutex));
	SHOW("unlock", pmemobj_mutex_unlock(pool, &all->mutex));
}

/* A pool that is full can be emptied, and used again. */
static void full(void)
{
	int count = 0;
	while (pmemobj_alloc(pool, NULL, 100000, 5, NULL, NULL) == 0)
		count++;
	printf("full: %s, many: %d\n", strerrorname(errno), count > 60);
	while (pmemobj_alloc(pool, NULL, 50, 5, NULL, NULL) == 0)
		;
	PMEMoid oid, next;
	TX_BEGIN(pool) {
		pmemobj_tx_free(pmemobj_first(pool));
	} TX_END
	printf("free in a transaction: %d\n", pmemobj_tx_errno());
	for (oid = pmemobj_first(pool); !OID_IS_NULL(oid); oid = next) {
		next = pmemobj_next(oid);
		pmemobj_free(&oid);
	}
	printf("empty: %d\n", OID_IS_NULL(pmemobj_first(pool)));
	SHOW("alloc", pmemobj_alloc(pool, NULL, 4000000, 5, NULL, NULL));
}

/* Processes do not share a pool. */
static void processes(const char *file)
{
	fflush(stdout);
	if (fork() == 0) {
		SHOW("open in another process", IS(pmemobj_open(file, "a")));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	SHOW("the parent goes on", pmemobj_alloc(pool, NULL, 100, 9, NULL, NULL));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	const char *folder = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	files(folder);
	pool = pmemobj_create(NAME("objects"), "a", SIZE, 0600);
	strcpy(other_path, path);
	objects();
	transactions();
	classes();
	callbacks();
	locks();
	full();
	processes(other_path);
	pmemobj_close(pool);
	return 0;
}
