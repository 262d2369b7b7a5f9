/* shared.c: random numbers, locks, logs, slots and entries of the twins; see twin.h. */
#include "twin.h"

void *zeroed(uint64_t count, uint64_t bytes)
{
    uint64_t room = (count * bytes / PM_LINE + 1) * PM_LINE;
    void *at = aligned_alloc(PM_LINE, room);
    if (!at)
        pm_unusable("memory");
    return memset(at, 0, room);
}

/* Random numbers. */

static uint64_t rotated(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

struct random random_stream(uint64_t seed, uint64_t index)
{
    struct random random;
    uint64_t x = seed ^ index * 0x9e3779b97f4a7c15u;
    for (unsigned n = 0; n < 4; n++) {
        uint64_t z = x += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        random.s[n] = z ^ z >> 31;
    }
    return random;
}

uint64_t random_below(struct random *random, uint64_t n)
{
    uint64_t *s = random->s, result = rotated(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return (uint64_t)((unsigned __int128)result * n >> 64);
}

uint64_t *initial_keys(uint64_t seed, uint64_t entries)
{
    struct random random = random_stream(seed, 0);
    uint64_t *keys = zeroed(2 * entries, sizeof *keys);
    for (uint64_t n = 0; n < 2 * entries; n++)
        keys[n] = n;
    for (uint64_t place = 2 * entries - 1; place >= 1; place--) {
        uint64_t other = random_below(&random, place + 1), kept = keys[place];
        keys[place] = keys[other];
        keys[other] = kept;
    }
    return keys;
}

enum action draw_action(struct worker *worker)
{
    if (draw_below(worker, 100) < 33)
        return SEARCH;
    return draw_below(worker, 2) == 0 ? INSERT : DELETE;
}

/* Locks. */

void locks_place(struct locks *locks, uint64_t count, uint64_t threads, uint64_t levels)
{
    locks->all = zeroed(count, sizeof *locks->all);
    locks->nodes = zeroed(threads * levels, sizeof *locks->nodes);
    locks->levels = levels;
}

static void wait_a_turn(unsigned *turns)
{
    _mm_pause();
    if (++*turns % 256 == 0)
        sched_yield();
}

void lock_acquire(const struct locks *locks, uint64_t index, uint64_t thread, uint64_t level)
{
    struct lock_node *node = &locks->nodes[thread * locks->levels + level];
    unsigned turns = 0;
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&node->waits, 1, memory_order_relaxed);
    struct lock_node *before = atomic_exchange(&locks->all[index].last, node);
    if (!before)
        return;
    atomic_store_explicit(&before->next, node, memory_order_release);
    while (atomic_load_explicit(&node->waits, memory_order_acquire))
        wait_a_turn(&turns);
}

void lock_release(const struct locks *locks, uint64_t index, uint64_t thread, uint64_t level)
{
    struct lock_node *node = &locks->nodes[thread * locks->levels + level], *last = node;
    struct lock_node *next = atomic_load_explicit(&node->next, memory_order_acquire);
    unsigned turns = 0;
    if (!next) {
        if (atomic_compare_exchange_strong(&locks->all[index].last, &last, NULL))
            return;
        while (!(next = atomic_load_explicit(&node->next, memory_order_acquire)))
            wait_a_turn(&turns);
    }
    atomic_store_explicit(&next->waits, 0, memory_order_release);
}

/* Logs. */

enum { SEQUENCE = 0, SIZE = 8, CHECKSUM = 16, RETIRED = 24, RECORDS = PM_LINE };

#define COUNT_SHIFT 48
#define FRESH 1

void logs_place(struct logs *logs, addr *used, uint64_t threads, uint64_t words)
{
    logs->threads = threads;
    logs->words = (words + 7) / 8 * 8;
    logs->area = area(used, threads * (RECORDS + 8 * logs->words));
}

static addr log_of(const struct logs *logs, uint64_t thread)
{
    return logs->area + thread * (RECORDS + 8 * logs->words);
}

static uint32_t sum_object(uint32_t sum, addr at, uint64_t words)
{
    uint64_t copy[ENTRY_WORDS];
    for (uint64_t n = 0; n < words; n++)
        copy[n] = load(at + 8 * n);
    return crc32c(sum, copy, words);
}

static uint32_t sum_records(uint64_t sequence, const uint64_t *records, uint64_t size)
{
    uint64_t head[2] = {sequence, size};
    return crc32c(crc32c(0, head, 2), records, size);
}

/* Whether words words at the address are data: in the pool, outside its header and logs. */
static int is_data(const struct logs *logs, addr at, uint64_t words)
{
    addr end = at + 8 * words, logs_end = log_of(logs, logs->threads);
    return at % 8 == 0 && at >= HEADER_BYTES && end <= pool_bytes &&
           (end <= logs->area || at >= logs_end);
}

/* Copies the records of a log that is whole and not retired; returns their size, or 0. */
static uint64_t pending(const struct logs *logs, addr log, uint64_t *records)
{
    uint64_t sequence = load(log + SEQUENCE), size = load(log + SIZE);
    if (sequence == load(log + RETIRED) || size > logs->words)
        return 0;
    for (uint64_t n = 0; n < size; n++)
        records[n] = load(log + RECORDS + 8 * n);
    uint32_t sum = sum_records(sequence, records, size);
    for (uint64_t n = 0; n < size;) {
        addr at = records[n] & ((1ull << COUNT_SHIFT) - 1);
        uint64_t words = records[n] >> COUNT_SHIFT;
        if (at & FRESH) {
            if (words > ENTRY_WORDS || !is_data(logs, at & ~(addr)FRESH, words))
                return 0;
            sum = sum_object(sum, at & ~(addr)FRESH, words);
            words = 0;
        }
        n += 1 + words;
    }
    return sum == load(log + CHECKSUM) ? size : 0;
}

static void replay(const struct logs *logs, const uint64_t *records, uint64_t size)
{
    for (uint64_t n = 0; n < size;) {
        addr at = records[n] & ((1ull << COUNT_SHIFT) - 1);
        uint64_t words = at & FRESH ? 0 : records[n] >> COUNT_SHIFT;
        if (words > size - n - 1 || !(at & FRESH || is_data(logs, at, words)))
            pm_broken("a log would write %llu words at %#llx", (unsigned long long)words,
                      (unsigned long long)at);
        for (uint64_t w = 0; w < words; w++) {
            store(at + 8 * w, records[n + 1 + w]);
            flush(at + 8 * w, 8);
        }
        n += 1 + words;
    }
}

void logs_recover(const struct logs *logs)
{
    uint64_t *records = zeroed(logs->words, 8);
    unsigned char *finished = zeroed(logs->threads, 1);
    for (uint64_t t = 0; t < logs->threads; t++) {
        uint64_t size = pending(logs, log_of(logs, t), records);
        replay(logs, records, size);
        finished[t] = size != 0;
    }
    pm_fence();
    for (uint64_t t = 0; t < logs->threads; t++) {
        addr log = log_of(logs, t);
        if (finished[t]) {
            store(log + RETIRED, load(log + SEQUENCE));
            pm_persist(pool + log, PM_LINE);
        }
    }
    free(finished);
    free(records);
}

void tx_begin(struct tx *tx, const struct logs *logs, uint64_t thread)
{
    tx->log = log_of(logs, thread);
    tx->capacity = logs->words;
    tx->runs = 0;
    tx->records = 1;
    tx->fresh = 0;
}

void tx_fresh(struct tx *tx, addr at)
{
    tx->fresh = at;
}

/* The record of the word at the address, or 0. */
static unsigned tx_find(const struct tx *tx, addr at)
{
    for (unsigned n = tx->runs; n-- > 0;)
        if (at >= tx->run[n].at && at < tx->run[n].at + 8 * tx->run[n].count)
            return tx->run[n].first + (unsigned)((at - tx->run[n].at) / 8);
    return 0;
}

uint64_t tx_load(const struct tx *tx, addr at)
{
    unsigned found = tx_find(tx, at);
    return found ? tx->record[found] : load(at);
}

/* Makes place for words that the transaction has not stored; returns it. */
static uint64_t *tx_extend(struct tx *tx, addr at, unsigned count)
{
    unsigned last = tx->runs - 1;
    if (tx->records + count >= TX_WORDS + TX_RUNS || tx->runs == TX_RUNS)
        pm_broken("a transaction is too large");
    if (!tx->runs || tx->run[last].at + 8 * tx->run[last].count != at) {
        last = tx->runs++;
        tx->run[last].at = at;
        tx->run[last].first = ++tx->records;
        tx->run[last].count = 0;
    }
    tx->run[last].count += count;
    tx->record[tx->run[last].first - 1] = tx->run[last].at
                                          | (uint64_t)tx->run[last].count << COUNT_SHIFT;
    tx->records += count;
    return tx->record + tx->records - count;
}

uint64_t *tx_copy(struct tx *tx, addr to, addr from, unsigned count)
{
    uint64_t *words = tx_extend(tx, to, count);
    for (unsigned n = 0; n < count; n++)
        words[n] = load(from + 8 * n);
    return words;
}

void tx_store(struct tx *tx, addr at, uint64_t value)
{
    if (tx->fresh && at >= tx->fresh && at < tx->fresh + ENTRY_BYTES) {
        store(at, value);
        return;
    }
    unsigned found = tx_find(tx, at);
    if (found)
        tx->record[found] = value;
    else
        *tx_extend(tx, at, 1) = value;
}

static uint64_t write_log(struct tx *tx)
{
    const uint64_t *records = tx->record + (tx->fresh ? 0 : 1);
    uint64_t size = (uint64_t)(tx->record + tx->records - records);
    tx->record[0] = tx->fresh | FRESH | (uint64_t)ENTRY_WORDS << COUNT_SHIFT;
    if (size > tx->capacity)
        pm_broken("%llu words for a log", (unsigned long long)size);
    addr log = tx->log;
    uint64_t sequence = load(log + SEQUENCE) + 1;
    uint32_t sum = sum_records(sequence, records, size);
    if (tx->fresh)
        sum = sum_object(sum, tx->fresh, ENTRY_WORDS);
    for (uint64_t n = 0; n < size; n++)
        store(log + RECORDS + 8 * n, records[n]);
    store(log + SEQUENCE, sequence);
    store(log + SIZE, size);
    store(log + CHECKSUM, sum);
    flush(log, RECORDS + 8 * size);
    if (tx->fresh)
        flush(tx->fresh, ENTRY_BYTES);
    return sequence;
}

/* The runs in the order of their addresses. */
static void sort_runs(const struct tx *tx, unsigned *order)
{
    for (unsigned n = 0; n < tx->runs; n++) {
        unsigned place = n;
        for (; place > 0 && tx->run[order[place - 1]].at > tx->run[n].at; place--)
            order[place] = order[place - 1];
        order[place] = n;
    }
}

/* Writes the words in place, and then flushes each line once, in the order of their addresses. */
static void apply(const struct tx *tx)
{
    unsigned order[TX_RUNS];
    addr flushed = 0; /* all lines before */
    for (unsigned n = 0; n < tx->runs; n++) {
        const uint64_t *words = tx->record + tx->run[n].first;
        addr at = tx->run[n].at;
        for (unsigned w = 0, count = tx->run[n].count; w < count; w++)
            store(at + 8 * w, words[w]);
    }
    sort_runs(tx, order);
    for (unsigned n = 0; n < tx->runs; n++) {
        addr at = tx->run[order[n]].at, end = at + 8 * tx->run[order[n]].count;
        addr line = at / PM_LINE * PM_LINE;
        for (line = line < flushed ? flushed : line; line < end; line += PM_LINE)
            flush(line, PM_LINE);
        flushed = line < flushed ? flushed : line;
    }
}

void tx_commit(struct tx *tx, const struct version *versions, unsigned count)
{
    if (tx->runs == 0)
        return;
    uint64_t sequence = write_log(tx);
    order();
    apply(tx);
    order();
    store(tx->log + RETIRED, sequence);
    flush(tx->log, PM_LINE);
    for (unsigned n = 0; n < count; n++) {
        store(versions[n].at, versions[n].value + 1);
        flush(versions[n].at, 8);
    }
    order();
}

/* Slots. */

#define RESERVE 8

void slots_place(struct slots *slots, addr *used, uint64_t count, uint64_t threads)
{
    slots->area = area(used, count * ENTRY_BYTES);
    slots->version = area(used, PM_LINE);
    slots->count = count;
    slots->threads = threads;
    slots->next = zeroed(count, sizeof *slots->next);
    slots->lists = zeroed(threads + 1, sizeof *slots->lists);
    locks_place(&slots->lock, 1, threads, 1);
}

/* The number of a slot, plus 1, or 0 if the list is empty. */
static uint64_t pop(struct slots *slots, struct slot_list *list)
{
    uint64_t slot = list->first;
    if (slot) {
        list->first = slots->next[slot - 1];
        list->length--;
    }
    return slot;
}

static void push(struct slots *slots, struct slot_list *list, uint64_t slot)
{
    slots->next[slot - 1] = list->first;
    list->first = slot;
    list->length++;
}

static void transfer(struct slots *slots, struct slot_list *from, struct slot_list *to)
{
    for (unsigned n = 0; n < RESERVE; n++) {
        uint64_t slot = pop(slots, from);
        if (!slot)
            return;
        push(slots, to, slot);
    }
}

addr slots_take(struct slots *slots, uint64_t thread)
{
    struct slot_list *mine = &slots->lists[thread];
    if (!mine->first) {
        lock_acquire(&slots->lock, 0, thread, 0);
        (void)version_read(slots->version, 0);
        transfer(slots, &slots->lists[slots->threads], mine);
        lock_release(&slots->lock, 0, thread, 0);
    }
    uint64_t slot = pop(slots, mine);
    return slot ? slots->area + (slot - 1) * ENTRY_BYTES : 0;
}

void slots_give(struct slots *slots, uint64_t thread, addr at)
{
    struct slot_list *mine = &slots->lists[thread];
    push(slots, mine, (at - slots->area) / ENTRY_BYTES + 1);
    if (mine->length > 2 * RESERVE) {
        lock_acquire(&slots->lock, 0, thread, 0);
        struct version version = version_read(slots->version, 0);
        transfer(slots, mine, &slots->lists[slots->threads]);
        store(version.at, version.value + 1);
        flush(version.at, 8);
        order();
        lock_release(&slots->lock, 0, thread, 0);
    }
}

void slots_rebuild(struct slots *slots, const unsigned char *live)
{
    uint64_t *freed = zeroed(slots->count, sizeof *freed), count = 0, next = 0;
    for (uint64_t slot = 0; slot < slots->count; slot++)
        if (!live[slot])
            freed[count++] = slot + 1;
    for (uint64_t list = 0; list <= slots->threads; list++) {
        uint64_t left = count - next;
        uint64_t share = list < slots->threads && left > RESERVE ? RESERVE : left;
        slots->lists[list].first = slots->lists[list].length = 0;
        for (uint64_t n = share; n-- > 0;)
            push(slots, &slots->lists[list], freed[next + n]);
        next += share;
    }
    free(freed);
}

addr slots_reach(const struct slots *slots, unsigned char *live, addr to)
{
    uint64_t slot = (to - slots->area) / ENTRY_BYTES;
    if (to < slots->area || (to - slots->area) % ENTRY_BYTES || slot >= slots->count)
        pm_broken("a pointer leads to %#llx, where no entry is", (unsigned long long)to);
    if (live[slot]++)
        pm_broken("two pointers lead to %#llx", (unsigned long long)to);
    return to;
}

/* Entries. */

static uint64_t payload(uint64_t key, uint64_t tag, uint64_t word)
{
    uint64_t mixed = rotated(key, 32) ^ tag * 0x9e3779b97f4a7c15u;
    return (mixed ^ word * 0xff51afd7ed558ccdu) | 1;
}

void entry_fill(addr at, unsigned from, uint64_t key, uint64_t tag)
{
    for (unsigned word = from; word < ENTRY_WORDS; word++)
        store(at + 8 * word, payload(key, tag, word));
}

uint64_t entry_read(addr at)
{
    uint64_t sum = 0;
    for (unsigned word = 0; word < ENTRY_WORDS; word++)
        sum += load(at + 8 * word);
    return sum;
}

void entry_check(addr at, unsigned from, uint64_t key, uint64_t tag)
{
    for (unsigned word = from; word < ENTRY_WORDS; word++)
        if (tag == 0 || load(at + 8 * word) != payload(key, tag, word))
            pm_broken("the entry of key %llu at %#llx is torn at word %u", (unsigned long long)key,
                      (unsigned long long)at, word);
}

uint32_t crc32c(uint32_t sum, const uint64_t *words, uint64_t count)
{
    uint64_t state = (uint32_t)~sum;
    for (uint64_t n = 0; n < count; n++)
        state = _mm_crc32_u64(state, words[n]);
    return ~(uint32_t)state;
}
