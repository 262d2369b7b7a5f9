/* queue.c: enqueue, dequeue and peek in copy-while-locked queues (MICRO'15, Figure 10): the entry
 * is one epoch, the end the next. Twin of micro15/structures/queue.rs. */
#include "twin.h"

enum { HEAD = 0, TAIL = PM_LINE, ENDS_BYTES = 2 * PM_LINE, KEY = 0, TAG = 8, PAYLOAD = 2 };

#define POSITIONS_BITS 40

static uint64_t threads, queues, capacity;
static addr ends, first;
static struct locks locks;

static addr entry_at(uint64_t number, uint64_t position)
{
    return first + (number * capacity + position % capacity) * ENTRY_BYTES;
}

static uint64_t key_of(uint64_t number, uint64_t position)
{
    return number << POSITIONS_BITS | position;
}

static void shape(uint64_t count, uint64_t entries, uint64_t *roots)
{
    uint64_t wanted = 10 * count, most = (entries + 3) / 4;
    roots[0] = count;
    roots[1] = wanted < most ? wanted : most;
    roots[2] = 2 * ((entries + roots[1] - 1) / roots[1]);
}

static int place(const uint64_t *roots, addr *used)
{
    threads = roots[0];
    queues = roots[1];
    capacity = roots[2];
    if (queues == 0 || queues > 4096 || capacity == 0 || capacity > 1 << 20)
        return 0;
    ends = area(used, queues * ENDS_BYTES);
    first = area(used, queues * capacity * ENTRY_BYTES);
    locks_place(&locks, queues, threads, 1);
    return 1;
}

static void advance(addr end, uint64_t from)
{
    store(end, from + 1);
    flush(end, 8);
    order();
}

static void enqueue(uint64_t thread, uint64_t number, uint64_t tag)
{
    addr ends_at = ends + number * ENDS_BYTES;
    lock_acquire(&locks, number, thread, 0);
    uint64_t head = load(ends_at + HEAD), tail = load(ends_at + TAIL);
    if (head - tail != capacity) {
        addr at = entry_at(number, head);
        store(at + KEY, key_of(number, head));
        store(at + TAG, tag);
        entry_fill(at, PAYLOAD, key_of(number, head), tag);
        flush(at, ENTRY_BYTES);
        order();
        advance(ends_at + HEAD, head);
    }
    lock_release(&locks, number, thread, 0);
}

/* Reads the entry at the tail, and removes it if asked to. */
static void take(uint64_t thread, uint64_t number, int remove)
{
    addr ends_at = ends + number * ENDS_BYTES;
    lock_acquire(&locks, number, thread, 0);
    uint64_t head = load(ends_at + HEAD), tail = load(ends_at + TAIL);
    if (head != tail) {
        (void)entry_read(entry_at(number, tail));
        (void)load(entry_at(number, tail) + TAG);
        if (remove)
            advance(ends_at + TAIL, tail);
    }
    lock_release(&locks, number, thread, 0);
}

static void fill(uint64_t seed, uint64_t entries)
{
    (void)seed;
    for (uint64_t n = 0; n < entries; n++)
        enqueue(0, n % queues, initial_tag(n));
}

static uint64_t draw_queue(struct worker *worker)
{
    uint64_t own = queues / threads;
    if (own > 0 && draw_below(worker, 100) < 75)
        return worker->thread * own + draw_below(worker, own);
    return draw_below(worker, queues);
}

static void step(struct worker *worker)
{
    enum action action = draw_action(worker);
    uint64_t number = draw_queue(worker);
    if (action == INSERT)
        enqueue(worker->thread, number, tag_of(worker));
    else
        take(worker->thread, number, action == DELETE);
}

static void recover(void)
{
}

static void check(void)
{
    for (uint64_t number = 0; number < queues; number++) {
        addr ends_at = ends + number * ENDS_BYTES;
        uint64_t head = load(ends_at + HEAD), tail = load(ends_at + TAIL);
        if (head >> POSITIONS_BITS || tail > head || head - tail > capacity)
            pm_broken("queue %llu has its head at %llu and its tail at %llu",
                      (unsigned long long)number, (unsigned long long)head,
                      (unsigned long long)tail);
        for (uint64_t position = tail; position < head; position++) {
            addr at = entry_at(number, position);
            entry_check(at, PAYLOAD, load(at + KEY), load(at + TAG));
            if (load(at + KEY) != key_of(number, position))
                pm_broken("place %llu of queue %llu holds a foreign entry",
                          (unsigned long long)position, (unsigned long long)number);
        }
    }
}

const struct twin queue = {"queue", 8192, shape, place, fill, step, recover, check};
