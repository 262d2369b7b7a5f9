/* undo.c: transfers between accounts in transactions with an undo log for each thread.
 *
 *     undo run POOL THREADS OPS [FLAW]      undo check POOL [FLAW]
 *
 * A transfer moves money from one account to two others and counts itself, all in one transaction:
 * it logs the old values, counts the records, changes the fields, and empties the log, each step
 * durable before the next. The accounts stay locked until then. The sum of all accounts is
 * constant, and the counts say exactly what each of them holds.
 *
 * Flaws:
 *   1  missing flush of the log: the records are never written back
 *   2  missing fence: the records are flushed, but nothing orders them before their count
 *   3  unlogged field: the third account is not logged
 *   4  missing flush: the log is emptied although the accounts are not written back
 *   5  missing fence: the accounts are flushed, but nothing orders them before the empty log
 *   6  missing recovery step (flaw of check): interrupted transfers are not undone
 *   7  early unlock: the accounts are unlocked before the log is empty (needs two threads that
 *      meet)
 *   8  wrong order: the accounts change before the records are counted */
#include "pm.h"

#include <stddef.h>

#define MAGIC 0x316f646e75ull
#define ACCOUNTS 64
#define START 1000
#define FIELDS 4

struct record {
    uint64_t offset;
    int64_t old;
};

struct log {
    uint64_t records, unused[7];
    struct record fields[FIELDS];
};

struct account {
    int64_t balance;
    uint64_t unused[3];
};

struct pool {
    struct pm_header header;
    struct account accounts[ACCOUNTS];
    int64_t transfers[PM_THREADS_MAX][8]; /* only the first of each line is used */
    struct log logs[PM_THREADS_MAX];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the accounts");

static struct pool *pool;
static unsigned flaw;
static pthread_mutex_t locks[ACCOUNTS];

/* The accounts and their changes. The three accounts differ and are in order. */
struct transfer {
    unsigned accounts[3];
    int64_t changes[3];
};

static struct transfer transfer_of(uint64_t thread, uint64_t number)
{
    uint64_t random = pm_random(thread, number);
    struct transfer transfer;
    unsigned a = random % (ACCOUNTS - 2), b = (random >> 16) % (ACCOUNTS - 2 - a) + a + 1;
    transfer.accounts[0] = a;
    transfer.accounts[1] = b;
    transfer.accounts[2] = (random >> 24) % (ACCOUNTS - 1 - b) + b + 1;
    unsigned from = (random >> 32) % 3;
    transfer.changes[(from + 1) % 3] = 1 + (int64_t)(random >> 40 & 15);
    transfer.changes[(from + 2) % 3] = 1 + (int64_t)(random >> 48 & 15);
    transfer.changes[from] = -transfer.changes[(from + 1) % 3] - transfer.changes[(from + 2) % 3];
    return transfer;
}

static void keep(struct log *log, unsigned index, const int64_t *field)
{
    log->fields[index].offset = (uint64_t)((const char *)field - (const char *)pool);
    log->fields[index].old = *field;
}

static void count_records(struct log *log, uint64_t records)
{
    log->records = records;
    pm_persist(&log->records, sizeof log->records);
}

static void change(int64_t *field, int64_t amount)
{
    *field += amount;
    if (flaw != 4)
        pm_flush(field, sizeof *field);
}

static void change_all(uint64_t thread, const struct transfer *transfer)
{
    for (unsigned n = 0; n < 3; n++)
        change(&pool->accounts[transfer->accounts[n]].balance, transfer->changes[n]);
    change(&pool->transfers[thread][0], 1);
    if (flaw != 5)
        pm_fence();
}

static void unlock(const struct transfer *transfer)
{
    for (unsigned n = 0; n < 3; n++)
        pthread_mutex_unlock(&locks[transfer->accounts[n]]);
}

static void perform(uint64_t thread, const struct transfer *transfer)
{
    struct log *log = &pool->logs[thread];
    unsigned records = 0;
    for (unsigned n = 0; n < 3; n++)
        pthread_mutex_lock(&locks[transfer->accounts[n]]);
    keep(log, records++, &pool->transfers[thread][0]);
    for (unsigned n = 0; n < 3 - (flaw == 3); n++)
        keep(log, records++, &pool->accounts[transfer->accounts[n]].balance);
    if (flaw != 1)
        pm_flush(log->fields, sizeof log->fields);
    if (flaw != 2)
        pm_fence();
    if (flaw == 8)
        change_all(thread, transfer);
    count_records(log, records);
    if (flaw != 8)
        change_all(thread, transfer);
    if (flaw == 7)
        unlock(transfer);
    count_records(log, 0);
    if (flaw != 7)
        unlock(transfer);
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->header.done[thread].value;
    for (uint64_t n = first; n < first + operations; n++) {
        struct transfer transfer = transfer_of(thread, n);
        perform(thread, &transfer);
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* Undoes the transfer of a thread that a crash interrupted. */
static void recover(uint64_t thread)
{
    struct log *log = &pool->logs[thread];
    uint64_t low = offsetof(struct pool, accounts), high = offsetof(struct pool, logs);
    if (log->records > FIELDS)
        pm_broken("thread %llu has %llu records", (unsigned long long)thread,
                  (unsigned long long)log->records);
    if (log->records == 0)
        return;
    for (uint64_t n = 0; n < log->records; n++) {
        uint64_t offset = log->fields[n].offset;
        if (offset < low || offset >= high || offset % 8 != 0)
            pm_broken("record %llu of thread %llu is of no field", (unsigned long long)n,
                      (unsigned long long)thread);
        memcpy((char *)pool + offset, &log->fields[n].old, sizeof log->fields[n].old);
        pm_flush((char *)pool + offset, sizeof log->fields[n].old);
    }
    pm_fence();
    count_records(log, 0);
}

static void check(void)
{
    int64_t wanted[ACCOUNTS], sum = 0;
    for (unsigned a = 0; a < ACCOUNTS; a++)
        wanted[a] = START, sum += pool->accounts[a].balance;
    if (sum != START * ACCOUNTS)
        pm_broken("the sum of all accounts is %lld, not %d", (long long)sum, START * ACCOUNTS);
    for (uint64_t t = 0; t < PM_THREADS_MAX; t++) {
        uint64_t done = pool->header.done[t].value, count = (uint64_t)pool->transfers[t][0];
        if (count < done || count > done + (t < pool->header.threads))
            pm_broken("thread %llu has completed %llu transfers, the accounts hold %llu",
                      (unsigned long long)t, (unsigned long long)done, (unsigned long long)count);
        for (uint64_t n = 0; n < count; n++) {
            struct transfer transfer = transfer_of(t, n);
            for (unsigned part = 0; part < 3; part++)
                wanted[transfer.accounts[part]] += transfer.changes[part];
        }
    }
    for (unsigned a = 0; a < ACCOUNTS; a++)
        if (pool->accounts[a].balance != wanted[a])
            pm_broken("account %u holds %lld, not %lld", a, (long long)pool->accounts[a].balance,
                      (long long)wanted[a]);
}

static void create(void)
{
    for (unsigned a = 0; a < ACCOUNTS; a++)
        pool->accounts[a].balance = START;
    pm_persist(pool->accounts, sizeof pool->accounts);
    pm_created(&pool->header, MAGIC);
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 8);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        create();
    for (uint64_t t = 0; flaw != 6 && t < PM_THREADS_MAX; t++)
        recover(t);
    check();
    if (!command.run)
        return PM_OK;
    for (uint64_t t = 0; t < pool->header.threads; t++)
        if (pool->header.done[t].value != (uint64_t)pool->transfers[t][0])
            pm_complete(&pool->header, t, (uint64_t)pool->transfers[t][0]);
    pm_allow_threads(&pool->header, command.threads);
    for (unsigned a = 0; a < ACCOUNTS; a++)
        pthread_mutex_init(&locks[a], NULL);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
