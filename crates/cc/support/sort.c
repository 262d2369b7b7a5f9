/* qsort and bsearch, which move and compare the program's own memory. A merge sort, stable as that
 * of glibc was up to 2.36, so that programs whose results depend on the order of equals have the
 * results that they have there. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef int (*compare_fn)(const void *, const void *, void *);
typedef uint64_t word8 __attribute__((aligned(1), may_alias));

struct sorting {
    size_t size;
    compare_fn compare;
    void *context;
    char *spare;
};

static inline void move_element(char *to, const char *from, size_t size)
{
    if (size == 8)
        *(word8 *)to = *(const word8 *)from;
    else
        memcpy(to, from, size);
}

/* Merges two sorted neighbours: the left one is put aside first. */
static void merge(const struct sorting *s, char *base, size_t left, size_t right)
{
    char *end = base + (left + right) * s->size;
    char *from_right = base + left * s->size;
    char *from_left = s->spare;
    char *left_end = s->spare + left * s->size;
    memcpy(s->spare, base, left * s->size);
    while (from_left < left_end && from_right < end) {
        char **lesser =
            s->compare(from_left, from_right, s->context) <= 0 ? &from_left : &from_right;
        move_element(base, *lesser, s->size);
        *lesser += s->size;
        base += s->size;
    }
    memcpy(base, from_left, (size_t)(left_end - from_left));
}

static void sort(const struct sorting *s, char *base, size_t count)
{
    if (count < 2)
        return;
    size_t left = count / 2;
    char *middle = base + left * s->size;
    sort(s, base, left);
    sort(s, middle, count - left);
    if (s->compare(middle - s->size, middle, s->context) > 0)
        merge(s, base, left, count - left);
}

void qsort_r(void *base, size_t count, size_t size, compare_fn compare, void *context)
{
    if (count < 2 || size == 0)
        return;
    char small[1024] __attribute__((aligned(16)));
    struct sorting s = {size, compare, context, small};
    size_t bytes = count / 2 * size;
    if (bytes > sizeof small)
        s.spare = malloc(bytes);
    if (s.spare == NULL)
        support_abort("qsort: no memory is left to sort with");
    sort(&s, base, count);
    if (s.spare != small)
        free(s.spare);
}

/* The comparison without a context is passed as the context. */
static int compare_plain(const void *a, const void *b, void *compare)
{
    return ((int (*)(const void *, const void *))compare)(a, b);
}

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    qsort_r(base, count, size, compare_plain, (void *)compare);
}

void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const void *, const void *))
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *element = (const char *)base + middle * size;
        int order = compare(key, element);
        if (order == 0)
            return (void *)element;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
