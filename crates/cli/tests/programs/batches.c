/* batches.c: threads that write many lines, flush them all, and fence once.
 *
 *     batches run POOL THREADS ROUNDS       batches check POOL
 *
 * In each round a thread writes the number of the round to all of its lines, makes them durable, and
 * then says that the round is done. In three of four rounds it flushes each line at once, else it
 * works on and flushes all at the end; a locked instruction is as good a fence as sfence. PM_FLUSH
 * chooses the instruction. */
#include "../../../program/tests/programs/pm.h"

#define MAGIC 0x736568637461ull
#define LINES 64
#define WORK 5000

struct line {
    uint64_t round, unused[7];
};

struct pool {
    struct pm_header header;
    struct line lines[PM_THREADS_MAX][LINES];
};

static struct pool *pool;
static uint64_t fences;

static void rounds(uint64_t thread, uint64_t count)
{
    struct line *lines = pool->lines[thread];
    for (uint64_t round = 1; round <= count; round++) {
        for (unsigned n = 0; n < LINES; n++) {
            lines[n].round = round;
            if (round % 4)
                pm_flush_line(&lines[n]);
        }
        if (round % 4 == 0) {
            for (volatile unsigned n = 0; n < WORK; n++)
                ;
            pm_flush(lines, LINES * sizeof *lines);
        }
        if (round % 4 == 2)
            __atomic_fetch_add(&fences, 1, __ATOMIC_SEQ_CST);
        else
            pm_fence();
        pm_complete(&pool->header, thread, round);
    }
}

static void check(void)
{
    for (unsigned thread = 0; thread < PM_THREADS_MAX; thread++) {
        uint64_t done = pool->header.done[thread].value;
        for (unsigned n = 0; n < LINES; n++) {
            uint64_t found = pool->lines[thread][n].round;
            if (found < done || found > done + 1)
                pm_broken("line %u of thread %u is of round %llu, and %llu are done", n, thread,
                          (unsigned long long)found, (unsigned long long)done);
        }
    }
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 0);
    pool = pm_map(command.path, sizeof *pool, command.run);
    if (!pm_is_created(&pool->header, MAGIC)) {
        if (!command.run)
            return PM_OK;
        pm_created(&pool->header, MAGIC);
    }
    if (!command.run) {
        check();
        return PM_OK;
    }
    pm_allow_threads(&pool->header, command.threads);
    pm_threads(command.threads, command.operations, rounds);
    return PM_OK;
}
