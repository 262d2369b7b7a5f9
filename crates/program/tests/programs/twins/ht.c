// The program of the gem5 measurements (validation/gem5.md): threads update one shared table of
// 64-byte buckets without locks. An update is two stores, each with an sfence behind it; gem5's Ruby
// drops the clwb of the original, so it is left out. Arguments: threads, operations of each
// thread, buckets.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PROBES 4

typedef struct {
    uint64_t key, value, version, unused[5];
} __attribute__((aligned(64))) bucket;

static bucket *table;
static uint64_t buckets = 65536, operations;

static inline void persist(void) { __asm__ volatile("sfence" ::: "memory"); }

static void *worker(void *number) {
    uint64_t state = 0x9e3779b97f4a7c15u * ((uint64_t)number + 1), sum = 0;
    for (uint64_t done = 0; done < operations; done++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t key = state * 0xff51afd7ed558ccdu, at = (key >> 20) % buckets;
        for (int probe = 0; probe < PROBES; probe++) {
            bucket *found = &table[(at + probe) % buckets];
            if (found->key == 0 || found->key == key || probe == PROBES - 1) {
                found->value = done;
                found->version++;
                persist();
                found->key = key;
                persist();
                break;
            }
            sum += found->value;
        }
    }
    return (void *)sum;
}

int main(int count, char **words) {
    long threads = count > 1 ? atol(words[1]) : 4;
    operations = count > 2 ? strtoul(words[2], 0, 10) : 10000;
    if (count > 3) buckets = strtoul(words[3], 0, 10);
    if (threads < 1 || threads > 64 || buckets < 1) return 2;
    table = mmap(0, buckets * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return 1;
    pthread_t others[64];
    for (long thread = 1; thread < threads; thread++)
        if (pthread_create(&others[thread], 0, worker, (void *)thread)) return 1;
    worker(0);
    for (long thread = 1; thread < threads; thread++) pthread_join(others[thread], 0);
    return 0;
}
