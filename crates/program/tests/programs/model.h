/* model.h: the operations of the programs that hold a map, and what the map must hold after them.
 * Each thread has keys of its own, spread among those of the others, so that its operations alone
 * say what its keys hold. */
#ifndef MODEL_H
#define MODEL_H

#include "pm.h"

#define KEYS_EACH 64
#define KEYS (KEYS_EACH * PM_THREADS_MAX)

enum action { PUT, ERASE, GET };

struct operation {
    enum action action;
    uint64_t key, value;
};

static inline struct operation operation_of(uint64_t thread, uint64_t number)
{
    uint64_t random = pm_random(thread, number), percent = random % 100;
    struct operation operation = {
        percent < 55 ? PUT : percent < 80 ? ERASE : GET,
        (random >> 32) % KEYS_EACH * PM_THREADS_MAX + thread,
        (thread + 1) << 32 | (number + 1),
    };
    return operation;
}

/* The values of all keys, 0 for none, in held; broken unless the counters explain them. */
static inline void model_check(const struct pm_header *header, const uint64_t *held)
{
    for (uint64_t t = 0; t < PM_THREADS_MAX; t++) {
        uint64_t wanted[KEYS_EACH] = {0}, done = header->done[t].value;
        for (uint64_t n = 0; n < done; n++) {
            struct operation operation = operation_of(t, n);
            if (operation.action != GET)
                wanted[operation.key / PM_THREADS_MAX] =
                    operation.action == PUT ? operation.value : 0;
        }
        struct operation last = operation_of(t, done);
        for (uint64_t k = 0; k < KEYS_EACH; k++) {
            uint64_t key = k * PM_THREADS_MAX + t, after = wanted[k];
            if (t < header->threads && last.key == key && last.action != GET)
                after = last.action == PUT ? last.value : 0;
            if (held[key] != wanted[k] && held[key] != after)
                pm_broken("after %llu operations of thread %llu key %llu holds %#llx, not %#llx",
                          (unsigned long long)done, (unsigned long long)t, (unsigned long long)key,
                          (unsigned long long)held[key], (unsigned long long)wanted[k]);
        }
    }
}

#endif
