/* region.c: a program that tells seawall which part of it to time, what it has put out, and which
 * of its fences wait, where the header is there; and is an ordinary program where it is not.
 *
 *     region run POOL THREADS OPS [FLAW]    region check POOL [FLAW]
 *
 * Threads fill slots of their own with numbered messages. A message is two lines; the count of a
 * slot's messages makes the last one valid, and is put out when it is durable.
 *
 * Flaws:
 *   1  missing flush: a message is not written back before its count
 *   2  missing fence: nothing orders a message before its count
 *   3  early output: a message is put out before its count is durable */
#include "pm.h"

#if defined(__has_include)
#if __has_include("seawall.h")
#include "seawall.h"
#define HAVE_SEAWALL 1
#endif
#endif
#ifndef HAVE_SEAWALL
static void seawall_region_begins(void) {}
static void seawall_region_ends(void) {}
static void seawall_reports(uint64_t number)
{
    (void)number;
}
/* Later stores are not durable before earlier ones. */
static void seawall_orders(void)
{
    pm_fence();
}
/* Returns when all earlier stores are durable. */
static void seawall_drains(void)
{
    pm_fence();
}
#endif

#define MAGIC 0x316e6f69676572ull
#define MESSAGES 64

struct message {
    uint64_t number, words[15];
};

struct slot {
    uint64_t count, unused[7]; /* of messages ever; the last MESSAGES are there */
    struct message messages[MESSAGES];
};

struct pool {
    struct pm_header header;
    struct slot slots[PM_THREADS_MAX];
};

#define POOL_BYTES (1u << 20)
_Static_assert(sizeof(struct pool) <= POOL_BYTES, "the pool holds the messages");

static struct pool *pool;
static unsigned flaw;

static void put(uint64_t thread, uint64_t number)
{
    struct slot *slot = &pool->slots[thread];
    struct message *message = &slot->messages[number % MESSAGES];
    message->number = number;
    for (unsigned n = 0; n < 15; n++)
        message->words[n] = pm_random(thread, number) + n;
    if (flaw != 1)
        pm_flush(message, sizeof *message);
    if (flaw != 2)
        seawall_orders();
    slot->count = number + 1;
    if (flaw == 3) {
        pm_complete(&pool->header, thread, number + 1);
        seawall_reports(thread << 32 | number);
    }
    pm_flush(&slot->count, sizeof slot->count);
    seawall_drains();
    if (flaw != 3)
        seawall_reports(thread << 32 | number);
}

static void work(uint64_t thread, uint64_t operations)
{
    uint64_t first = pool->slots[thread].count;
    for (uint64_t n = first; n < first + operations; n++) {
        put(thread, n);
        pm_complete(&pool->header, thread, n + 1);
    }
}

static void check(uint64_t thread)
{
    const struct slot *slot = &pool->slots[thread];
    uint64_t count = slot->count, done = pool->header.done[thread].value;
    if (count < done || count > done + (thread < pool->header.threads))
        pm_broken("thread %llu has put %llu messages, its slot counts %llu",
                  (unsigned long long)thread, (unsigned long long)done, (unsigned long long)count);
    /* The next message may be half written over the oldest. */
    uint64_t first = count < MESSAGES ? 0 : count - MESSAGES + 1;
    for (uint64_t number = first; number < count; number++) {
        const struct message *message = &slot->messages[number % MESSAGES];
        int torn = message->number != number;
        for (unsigned n = 0; n < 15; n++)
            torn |= message->words[n] != pm_random(thread, number) + n;
        if (torn)
            pm_broken("message %llu of thread %llu is torn", (unsigned long long)number,
                      (unsigned long long)thread);
    }
}

int main(int count, char **words)
{
    struct pm_command command = pm_command_line(count, words, 3);
    flaw = command.flaw;
    pool = pm_map(command.path, POOL_BYTES, command.run);
    int created = pm_is_created(&pool->header, MAGIC);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        pm_created(&pool->header, MAGIC);
    for (uint64_t t = 0; t < PM_THREADS_MAX; t++)
        check(t);
    if (!command.run)
        return PM_OK;
    pm_allow_threads(&pool->header, command.threads);
    seawall_region_begins();
    pm_threads(command.threads, command.operations, work);
    seawall_region_ends();
    return PM_OK;
}
