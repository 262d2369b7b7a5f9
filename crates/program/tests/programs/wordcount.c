/* wordcount.c: counts the words of a text that it makes up: threads take pieces of it with an
 * atomic counter and count in tables of their own (chains from malloc), which are then merged under
 * one lock a bucket. Without persistence.
 *
 *     wordcount [-pTHREADS] [-nWORDS] */
#include "kernel.h"

#include <stdatomic.h>

#define BUCKETS 64
#define VOCABULARY 500
#define PIECE 97

struct entry {
    struct entry *next;
    unsigned long count;
    char word[16];
};

static char *text;
static size_t *starts; /* of the words, and of the end */
static struct entry *totals[BUCKETS];
static pthread_mutex_t locks[BUCKETS];
static atomic_uint next_piece;
static unsigned long expected[VOCABULARY];

static void make_word(char *word, unsigned number)
{
    snprintf(word, 16, "w%c%u", 'a' + (int)(number % 26), number);
}

static void add(struct entry **table, const char *word, size_t length, unsigned long count)
{
    struct entry **at = &table[checksum(word, length) % BUCKETS];
    while (*at && (strncmp((*at)->word, word, length) || (*at)->word[length]))
        at = &(*at)->next;
    if (!*at) {
        *at = allocate(sizeof **at);
        memcpy((*at)->word, word, length);
    }
    (*at)->count += count;
}

static void *work(void *argument)
{
    struct entry *table[BUCKETS] = {NULL};
    (void)argument;
    for (;;) {
        size_t piece = atomic_fetch_add(&next_piece, 1), first = piece * PIECE;
        if (first >= size)
            break;
        for (size_t n = first; n < size && n < first + PIECE; n++)
            add(table, text + starts[n], starts[n + 1] - starts[n] - 1, 1);
    }
    for (unsigned b = 0; b < BUCKETS; b++) {
        pthread_mutex_lock(&locks[b]);
        for (struct entry *entry = table[b], *next; entry; entry = next) {
            next = entry->next;
            add(totals, entry->word, strlen(entry->word), entry->count);
            free(entry);
        }
        pthread_mutex_unlock(&locks[b]);
    }
    return NULL;
}

static void make_text(void)
{
    uint64_t random = 88172645463325252u;
    size_t at = 0;
    for (unsigned n = 0; n < size; n++) {
        unsigned word = (unsigned)(kernel_random(&random) % VOCABULARY * (random >> 32 & 255) >> 8);
        starts[n] = at;
        make_word(text + at, word);
        at += strlen(text + at);
        text[at++] = ' ';
        expected[word]++;
    }
    starts[size] = at;
}

int main(int count, char **words)
{
    uint64_t sum = 0;
    unsigned long seen = 0;
    kernel_start(count, words, 5000, 1u << 24);
    text = allocate((size_t)size * 16 + 16);
    starts = allocate(((size_t)size + 1) * sizeof *starts);
    for (unsigned b = 0; b < BUCKETS; b++)
        pthread_mutex_init(&locks[b], NULL);
    make_text();
    kernel_run(work);
    for (unsigned b = 0; b < BUCKETS; b++) {
        for (const struct entry *entry = totals[b]; entry; entry = entry->next) {
            unsigned number = (unsigned)strtoul(entry->word + 2, NULL, 10);
            if (number >= VOCABULARY || entry->count != expected[number])
                kernel_fail("%s was counted %lu times", entry->word, entry->count);
            seen += entry->count;
            sum += checksum(entry->word, strlen(entry->word)) * entry->count;
        }
    }
    if (seen != size)
        kernel_fail("%lu words were counted", seen);
    return kernel_ok(sum);
}
