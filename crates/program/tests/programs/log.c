/* log.c: registers that threads add to, kept as a checkpoint and a log of what was added since.
 *
 *     log run POOL THREADS OPS [FLAW]       log check POOL [FLAW]
 *
 * A record is two lines with a checksum and the number of its epoch: one flush and one fence append
 * it, and a torn one is recognised. A full log is truncated: the state with all records goes to the
 * copy that is not in use, and one store of the epoch's number makes that copy current and all
 * records old. Adding commutes, so the counters of the threads say exactly what the registers hold.
 *
 * Flaws:
 *   1  missing flush: a record is never written back
 *   2  missing flush: only the first line of a record is written back
 *   3  missing recovery step (flaw of check): checksums are not checked
 *   4  missing flush: the epoch changes although the new state is not written back
 *   5  missing fence: the new state is flushed, but nothing orders it before the epoch
 *   6  no second copy: a checkpoint changes the current state in place
 *   7  wrong order: an operation counts as complete before its record is durable */
#include "pm.h"

#define MAGIC 0x31676f6cull
#define REGISTERS 64
#define RECORDS 32

struct record {
    uint64_t epoch, thread, operation, target, amount;
    uint64_t note[10]; /* what an application would want to keep: derived from the amount */
    uint64_t sum;
};

struct state {
    uint64_t registers[REGISTERS];
    uint64_t applied[PM_THREADS_MAX]; /* the operations of each thread that it contains */
};

struct pool {
    struct pm_header header;
    uint64_t epoch, unused[7];
    struct state states[2]; /* the current one has the parity of the epoch */
    struct record log[RECORDS];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct record) == 2 * PM_LINE, "a record is two lines");
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the log");

static struct pool *pool;
static unsigned flaw;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t used_records;
static struct state now; /* the current state with all records */

static void draw(uint64_t thread, uint64_t number, struct record *record)
{
    uint64_t random = pm_random(thread, number);
    record->thread = thread;
    record->operation = number;
    record->target = random % REGISTERS;
    record->amount = random >> 40;
    for (unsigned n = 0; n < 10; n++)
        record->note[n] = record->amount + n;
}

static uint64_t sum_of(const struct record *record)
{
    const uint64_t *words = &record->epoch;
    uint64_t sum = 0x6a09e667f3bcc909u;
    for (unsigned n = 0; n < sizeof *record / 8 - 1; n++)
        sum = (sum ^ words[n]) * 0x9e3779b97f4a7c15u;
    return sum;
}

/* Adds a record to a state, which must contain all operations before it. */
static void apply(struct state *state, const struct record *record)
{
    if (record->thread >= PM_THREADS_MAX || record->target >= REGISTERS)
        pm_broken("a record of thread %llu", (unsigned long long)record->thread);
    if (record->operation != state->applied[record->thread])
        pm_broken("operation %llu of thread %llu follows operation %llu",
                  (unsigned long long)record->operation, (unsigned long long)record->thread,
                  (unsigned long long)state->applied[record->thread]);
    for (unsigned n = 0; n < 10; n++)
        if (record->note[n] != record->amount + n)
            pm_broken("the note of operation %llu of thread %llu is wrong",
                      (unsigned long long)record->operation, (unsigned long long)record->thread);
    state->registers[record->target] += record->amount;
    state->applied[record->thread]++;
}

/* Truncates the log. The lock is held. */
static void checkpoint(void)
{
    struct state *next = &pool->states[(pool->epoch + (flaw != 6)) % 2];
    *next = now;
    if (flaw != 4)
        pm_flush(next, sizeof *next);
    if (flaw != 5)
        pm_fence();
    if (flaw == 6) {
        pool->states[(pool->epoch + 1) % 2] = now;
        pm_persist(&pool->states[(pool->epoch + 1) % 2], sizeof now);
    }
    pool->epoch++;
    pm_persist(&pool->epoch, sizeof pool->epoch);
    used_records = 0;
}

static void append(uint64_t thread, uint64_t number)
{
    if (used_records == RECORDS)
        checkpoint();
    struct record *record = &pool->log[used_records++];
    record->epoch = pool->epoch;
    draw(thread, number, record);
    record->sum = sum_of(record);
    if (flaw == 7)
        pm_complete(&pool->header, thread, number + 1);
    if (flaw == 2)
        pm_flush(record, 1);
    else if (flaw != 1)
        pm_flush(record, sizeof *record);
    pm_fence();
    apply(&now, record);
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->header.done[thread].value;
    for (uint64_t n = first; n < first + operations; n++) {
        pthread_mutex_lock(&lock);
        append(thread, n);
        pthread_mutex_unlock(&lock);
        pm_complete(&pool->header, thread, n + 1);
    }
}

/* Makes the state of the current copy and the records of its epoch. */
static void recover(void)
{
    now = pool->states[pool->epoch % 2];
    for (used_records = 0; used_records < RECORDS; used_records++) {
        const struct record *record = &pool->log[used_records];
        if (record->epoch != pool->epoch || (flaw != 3 && record->sum != sum_of(record)))
            break;
        apply(&now, record);
    }
}

static void check(void)
{
    uint64_t wanted[REGISTERS] = {0};
    struct record record;
    for (uint64_t t = 0; t < PM_THREADS_MAX; t++) {
        uint64_t done = pool->header.done[t].value, applied = now.applied[t];
        if (applied < done || applied > done + (t < pool->header.threads))
            pm_broken("thread %llu has completed %llu operations, the log and the state hold %llu",
                      (unsigned long long)t, (unsigned long long)done, (unsigned long long)applied);
        for (uint64_t n = 0; n < applied; n++) {
            draw(t, n, &record);
            wanted[record.target] += record.amount;
        }
    }
    for (unsigned n = 0; n < REGISTERS; n++)
        if (now.registers[n] != wanted[n])
            pm_broken("register %u is %llu, not %llu", n, (unsigned long long)now.registers[n],
                      (unsigned long long)wanted[n]);
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 7);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created) {
        pool->epoch = 1; /* no record of zeros is one of it */
        pm_persist(&pool->epoch, sizeof pool->epoch);
        pm_created(&pool->header, MAGIC);
    }
    recover();
    check();
    if (!command.run)
        return PM_OK;
    for (uint64_t t = 0; t < pool->header.threads; t++)
        if (pool->header.done[t].value != now.applied[t])
            pm_complete(&pool->header, t, now.applied[t]);
    pm_allow_threads(&pool->header, command.threads);
    pm_threads(command.threads, command.operations, work);
    return PM_OK;
}
