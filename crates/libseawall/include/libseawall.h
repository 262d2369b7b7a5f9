/*
 * libseawall: persistent memory for programs in C.
 *
 * A pool is a file that is mapped. What a transaction changes in it happens wholly or not at all,
 * whenever the program is killed or (see sw_pool_durability_text) power fails.
 *
 * Every call gives a status; SW_OK is 0. When one is another, sw_error_text() says what is wrong
 * and what to do. No call jumps, calls back, writes to standard output, or ends the program.
 *
 * Threads: any number may use a pool; locks for what they share are the program's own. A call with
 * a pool waits while as many calls are in progress as options.threads says.
 */
#ifndef LIBSEAWALL_H
#define LIBSEAWALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_VERSION_MAJOR 0
#define SW_VERSION_MINOR 1

enum sw_status {
    SW_OK = 0,
    SW_NOT_FOUND = 1,     /* the key is not there; the end of a cursor or range. No error. */
    SW_SMALL = 2,         /* the value is longer than the place for it */
    SW_INVALID = 3,       /* an argument is wrong */
    SW_MISUSE = 4,        /* of a pool that is closed, a transaction that is over, after a fork */
    SW_EXISTS = 5,        /* the file, or the map, is there already */
    SW_MISSING = 6,       /* there is no such file or folder */
    SW_IN_USE = 7,        /* the file is open, here or in another process */
    SW_PERMISSION = 8,    /* the file may not be read and written */
    SW_NO_ROOM = 9,       /* the disk, the pool, or what the process may map is full */
    SW_NOT_A_POOL = 10,   /* the file is something else, or its creation did not end */
    SW_OTHER_LAYOUT = 11, /* the pool is of another program, layout or version */
    SW_DAMAGED = 12,      /* the file has what no crash leaves behind */
    SW_BUSY = 13,         /* another thread is in the way: abort and run it again */
    SW_TOO_LARGE = 14,    /* a transaction wrote more than one can */
    SW_NO_MAP = 15,       /* there is no such map at the ref */
    SW_SYSTEM = 16        /* anything else that the system refused */
};

/*
 * The text of the last call of this thread that did not give SW_OK or SW_NOT_FOUND. It is the
 * thread's until its next call that fails.
 */
const char *sw_error_text(void);

/* What a status is called, as in "SW_OK". */
const char *sw_status_name(int status);

/* ------------------------------------------------------------------------------------ pools --- */

/*
 * An open pool, which one process at a time has. A few bytes of each stay until the process ends,
 * so that calls with one that was closed give SW_MISUSE.
 *
 * In a process that is forked from that one, each call with the pool, or with a transaction or a
 * cursor of it, gives SW_MISUSE; sw_pool_close closes the copy that the process has, and changes
 * nothing of the pool. What sw_direct gave is not mapped there: an access ends the process
 * (SIGSEGV). It can open other pools. A program that calls daemon() opens its pools after that.
 */
typedef struct sw_pool sw_pool;

/* A place in a pool: an offset, which stays the same when it is opened again. 0 is none. */
typedef uint64_t sw_ref;

enum sw_domain {
    SW_DOMAIN_AUTO = 0, /* what SEAWALL_DOMAIN says, else what fits the file */
    SW_DOMAIN_PAGE = 1, /* msync: survives power failures on ordinary disks */
    SW_DOMAIN_LINE = 2, /* flush instructions */
    SW_DOMAIN_NONE = 3  /* the caches are persistent */
};

/*
 * What kind of objects there are, for pools in which objects move (sw_defragment).
 */
struct sw_type {
    const char *name;     /* 1 to 64 bytes; no other type has it */
    uint64_t bytes;       /* of an object, at least 1 and less than 16 MiB */
    const uint64_t *refs; /* where its refs are: offsets by rising order, multiples of 8 */
    size_t ref_count;
};

/*
 * What is 0 or NULL has its default. sw_pool_open looks at layout, domain, types, type_count, root,
 * defragment_at and defragment_to only.
 */
struct sw_options {
    uint64_t bytes;      /* for objects at first; 1 MiB */
    uint64_t bytes_max;  /* that it may grow to; 1 GiB. Costs addresses, not space. */
    uint64_t root_bytes; /* of the root object, up to 1 MiB; 1024 */
    uint64_t threads;    /* calls and transactions that run at once, 1 to 1024; 64 */
    uint64_t log_bytes;  /* of half a log; each of the threads has three halves; 64 KiB */
    const char *layout;  /* what the program calls the kind of its data; "" */
    int domain;          /* of enum sw_domain */
    int in_place;        /* 1: the program also stores without transactions (sw_persist) */
    const struct sw_type *types; /* of objects that move (sw_defragment); not with in_place */
    size_t type_count;           /* how many, up to 126 */
    const struct sw_type *root;  /* the root's type; its bytes are root_bytes */
    double defragment_at; /* bytes of pages for a byte of objects at which a cycle begins; 1.5 */
    double defragment_to; /* ... that it aims at, 1 or more; 1.25 */
    uint64_t reserved[4];
};

/*
 * Makes a pool in a new file. The root object is zero. After a crash before the return there is no
 * file, one that sw_pool_open refuses as SW_NOT_A_POOL, or the whole pool.
 */
int sw_pool_create(const char *path, const struct sw_options *options, sw_pool **pool);

/*
 * Opens a pool, and finishes or undoes what a crash has interrupted. The time grows with what was
 * in progress, not with the pool. A crash before the return is repaired by the next opening.
 */
int sw_pool_open(const char *path, const struct sw_options *options, sw_pool **pool);

/*
 * Closes a pool; SW_BUSY while a transaction or a call is in progress. No thread may begin a call on
 * the pool, or close it, while another one closes it: calls afterwards give SW_MISUSE. No address of
 * it may be used afterwards. Closing makes nothing durable: what was committed is.
 */
int sw_pool_close(sw_pool *pool);

/* What committed data survives on that file, in words; valid while the pool is open. */
const char *sw_pool_durability_text(const sw_pool *pool);

/* The root object, from which all others are reached. Both places may be NULL. */
int sw_pool_root(const sw_pool *pool, sw_ref *root, uint64_t *bytes);

/*
 * The address of a ref while the pool is open; NULL for 0 and for what is not in the pool. Loads by
 * it see what is committed, and what undo transactions have stored. Stores by it need sw_tx_add, or
 * a pool made with in_place and sw_persist.
 */
void *sw_direct(const sw_pool *pool, sw_ref ref);

/* The ref of an address in the pool; 0 if it is in none of its bytes. */
sw_ref sw_ref_of(const sw_pool *pool, const void *address);

/* ----------------------------------------------------------------------------- transactions --- */

/* A transaction; copy it as you like. It belongs to the thread that began it. */
typedef struct sw_tx {
    sw_pool *pool;
    uint64_t number;
} sw_tx;

enum sw_logging {
    SW_REDO = 0, /* new values are logged at commit, and others see nothing before */
    SW_UNDO = 1  /* old values are logged before each change, which is made in place */
};

/*
 * Begins a transaction; a thread has one at a time in a pool. Until it commits, a crash leaves
 * nothing of what it did. When its thread ends before, it is rolled back.
 *
 * It is no lock: hold one of your own from before the first access to what threads share until
 * sw_tx_commit has returned. A call that fails leaves the transaction as it was before that call.
 */
int sw_tx_begin(sw_pool *pool, int logging, sw_tx *tx);

/*
 * Commits. After a crash before the return, all that the transaction did is there or nothing; after
 * the return, all is. If it fails, nothing has changed; but if it gives SW_DAMAGED, for one because
 * the disk has failed, the next opening tells which. The transaction is over in any case.
 */
int sw_tx_commit(sw_tx tx);

/* Rolls back. The transaction is over. A crash before or after the return leaves nothing of it. */
int sw_tx_abort(sw_tx tx);

/*
 * Allocates an object of so many bytes, with any content, aligned to 16 bytes. It is there when the
 * transaction commits; a crash before leaks nothing.
 */
int sw_tx_alloc(sw_tx tx, uint64_t bytes, sw_ref *ref);

/*
 * Allocates an object of the type at that place in options.types, with that content (all bytes of
 * the type) or, if content is NULL, zero. Such objects can move.
 */
int sw_tx_new(sw_tx tx, size_t type, const void *content, sw_ref *ref);

/* Allocates an object with these bytes. */
int sw_tx_alloc_copy(sw_tx tx, const void *data, size_t bytes, sw_ref *ref);

/* Frees an object when the transaction commits; until then a crash leaves it. 0 is nothing. */
int sw_tx_free(sw_tx tx, sw_ref ref);

/* Writes bytes into an object or the root. They are there with the commit, or not at all. */
int sw_tx_write(sw_tx tx, sw_ref ref, uint64_t offset, const void *data, size_t bytes);

/* Reads bytes as the transaction sees them. */
int sw_tx_read(sw_tx tx, sw_ref ref, uint64_t offset, void *data, size_t bytes);

/* The same of one number of 64 bits, at a multiple of 8. */
int sw_tx_store64(sw_tx tx, sw_ref ref, uint64_t offset, uint64_t value);
int sw_tx_load64(sw_tx tx, sw_ref ref, uint64_t offset, uint64_t *value);

/*
 * SW_UNDO only: logs the old values of these bytes, which may then be stored by their address until
 * the transaction ends. A crash before the commit restores them. Bytes of an object that the
 * transaction has allocated are added too before they are stored by address; that costs no fence.
 */
int sw_tx_add(sw_tx tx, sw_ref ref, uint64_t offset, uint64_t bytes);

/* -------------------------------------------------------------------------- defragmentation --- */

/*
 * A pool that is made with options.types or options.root can be defragmented while threads use it:
 * objects of sw_tx_new move together, and the pages that they leave return to the file system. All
 * else stays: the root, objects of sw_tx_alloc, maps.
 *
 * A ref of an object that can move is a handle: it is valid until the transaction ends in which it
 * was loaded or allocated, and in that it does not change. Between transactions refs of such
 * objects are kept only where a type says that a ref is, and in no map. They lead to the start of an
 * object, and are read and written whole. sw_direct and sw_tx_add do not take such an object.
 */
enum sw_defragment_state {
    SW_DEFRAGMENT_IDLE = 0, /* there is nothing to do at present */
    SW_DEFRAGMENT_WORKS = 1,
    SW_DEFRAGMENT_WAITS = 2 /* for transactions that were in progress; call again a little later */
};

struct sw_defragmented {
    int state; /* of enum sw_defragment_state */
    int reserved;
    uint64_t cycles;   /* since the pool was opened: cycles that moved objects and ended, */
    uint64_t moved;    /* objects that they moved, without those that threads moved as they used them */
    uint64_t emptied;  /* pages of 4 KiB that objects have left */
    uint64_t returned; /* pages that were returned to the file system, some perhaps twice */
};

/*
 * Does up to so many steps of a cycle, in any thread without a transaction, one thread at a time
 * (SW_BUSY). A step takes some microseconds to some hundred; no step waits for a transaction. A
 * crash at any time loses nothing. What a cycle has begun, another goes on with when the pool was
 * opened again. SW_NO_ROOM if there is none for copies; SW_OTHER_LAYOUT if there are objects of a
 * type that options.types does not name. result may be NULL.
 */
int sw_defragment(sw_pool *pool, uint64_t steps, struct sw_defragmented *result);

/* --------------------------------------------------------------------- without transactions --- */

/*
 * In pools made with in_place. What was stored to these bytes before is there after a crash behind
 * the return of sw_persist, or of an sw_drain behind sw_flush by the same thread. Before that, each
 * aligned word of 8 bytes is there or not, in any order.
 */
int sw_persist(const sw_pool *pool, const void *address, size_t bytes);
int sw_flush(const sw_pool *pool, const void *address, size_t bytes);
int sw_drain(const sw_pool *pool);

/* --------------------------------------------------------------------------- maps of bytes --- */

/*
 * Maps from bytes to bytes, in no order, for any number of threads without locks. A map is named by
 * a ref to SW_MAP_BYTES bytes of yours, in the root or an object, at a multiple of 8 and zero at
 * first. They belong to the map until it is destroyed.
 *
 * sw_map_... is a transaction of its own: durable when it returns; after a crash before, it has
 * happened or not. sw_tx_map_... is part of yours, and sees what that has done. It can give SW_BUSY
 * when another thread changes the map; abort then, and run the transaction again: its sw_tx_begin
 * waits for what it lacked. A thread with an open transaction gets SW_MISUSE from the first kind.
 */
#define SW_MAP_BYTES 8

int sw_map_create(sw_pool *pool, sw_ref map);
int sw_tx_map_create(sw_tx tx, sw_ref map);

/* SW_OK if there is a map, else SW_NO_MAP. No need to: each call looks. Takes no time. */
int sw_map_open(const sw_pool *pool, sw_ref map);

/*
 * Looks at all of the map: for files that may have been changed by others. No other thread may be
 * in the pool. In a damaged map that was not checked, a call gives SW_DAMAGED, wrong values, or
 * takes long.
 */
int sw_map_check(const sw_pool *pool, sw_ref map);

/*
 * Copies the value of a key: as much as there is room for, and its length to value_bytes, which may
 * be NULL. SW_SMALL if that is longer than room.
 */
int sw_map_get(const sw_pool *pool, sw_ref map, const void *key, size_t key_bytes, void *value,
               size_t room, size_t *value_bytes);
int sw_tx_map_get(sw_tx tx, sw_ref map, const void *key, size_t key_bytes, void *value, size_t room,
                  size_t *value_bytes);

/* Makes it the value of the key. was_there says whether there was one before, and may be NULL. */
int sw_map_put(sw_pool *pool, sw_ref map, const void *key, size_t key_bytes, const void *value,
               size_t value_bytes, int *was_there);
int sw_tx_map_put(sw_tx tx, sw_ref map, const void *key, size_t key_bytes, const void *value,
                  size_t value_bytes, int *was_there);

/* Removes a key; SW_NOT_FOUND if it is not there. */
int sw_map_remove(sw_pool *pool, sw_ref map, const void *key, size_t key_bytes);
int sw_tx_map_remove(sw_tx tx, sw_ref map, const void *key, size_t key_bytes);

/* Counts the keys, in time that grows with the map. */
int sw_map_count(const sw_pool *pool, sw_ref map, uint64_t *count);

/* Frees the map with all that is in it. No other thread may use it. */
int sw_map_destroy(sw_pool *pool, sw_ref map);
int sw_tx_map_destroy(sw_tx tx, sw_ref map);

/*
 * A walk over a map by one thread. Keys that are there all the while are shown once, those that
 * come or go meanwhile perhaps. It copies some hundred at a time.
 */
typedef struct sw_cursor sw_cursor;

int sw_map_cursor(const sw_pool *pool, sw_ref map, sw_cursor **cursor);

/* The next key and value, valid until the next call with the cursor; SW_NOT_FOUND at the end. */
int sw_cursor_next(sw_cursor *cursor, const void **key, size_t *key_bytes, const void **value,
                   size_t *value_bytes);

/* Frees the cursor, also after its pool was closed. NULL is nothing. */
void sw_cursor_free(sw_cursor *cursor);

/* ---------------------------------------------------------------------------- ordered maps --- */

/*
 * Maps from numbers to numbers, in order. All that is said of maps of bytes holds of them; a ref
 * leads to SW_OMAP_BYTES bytes.
 */
#define SW_OMAP_BYTES 16

typedef struct sw_entry {
    uint64_t key;
    uint64_t value;
} sw_entry;

int sw_omap_create(sw_pool *pool, sw_ref map);
int sw_tx_omap_create(sw_tx tx, sw_ref map);
int sw_omap_open(const sw_pool *pool, sw_ref map);
int sw_omap_check(const sw_pool *pool, sw_ref map);
int sw_omap_get(const sw_pool *pool, sw_ref map, uint64_t key, uint64_t *value);
int sw_tx_omap_get(sw_tx tx, sw_ref map, uint64_t key, uint64_t *value);
int sw_omap_put(sw_pool *pool, sw_ref map, uint64_t key, uint64_t value, int *was_there);
int sw_tx_omap_put(sw_tx tx, sw_ref map, uint64_t key, uint64_t value, int *was_there);
int sw_omap_remove(sw_pool *pool, sw_ref map, uint64_t key);
int sw_tx_omap_remove(sw_tx tx, sw_ref map, uint64_t key);
int sw_omap_count(const sw_pool *pool, sw_ref map, uint64_t *count);
int sw_omap_destroy(sw_pool *pool, sw_ref map);
int sw_tx_omap_destroy(sw_tx tx, sw_ref map);

/*
 * Copies entries whose keys are first to last, in order: as many as there are, but not more than
 * room, nor than 4096. Call again from the last key plus 1 for more. SW_NOT_FOUND if there is none.
 */
int sw_omap_range(const sw_pool *pool, sw_ref map, uint64_t first, uint64_t last, sw_entry *entries,
                  size_t room, size_t *count);
int sw_tx_omap_range(sw_tx tx, sw_ref map, uint64_t first, uint64_t last, sw_entry *entries,
                     size_t room, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
