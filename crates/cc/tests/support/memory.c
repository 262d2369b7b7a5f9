/* memcpy, the str functions and sorting give what those of the C library give. */
#define _GNU_SOURCE
#include "harness.h"

#include <string.h>
#include <strings.h>

TESTED(memcpy);
TESTED(memmove);
TESTED(mempcpy);
TESTED(memset);
TESTED(memcmp);
TESTED(memchr);
TESTED(memrchr);
TESTED(bcopy);
TESTED(strlen);
TESTED(strnlen);
TESTED(strcpy);
TESTED(stpcpy);
TESTED(strncpy);
TESTED(stpncpy);
TESTED(strcat);
TESTED(strncat);
TESTED(strcmp);
TESTED(strncmp);
TESTED(strcasecmp);
TESTED(strncasecmp);
TESTED(strrchr);
TESTED(strspn);
TESTED(strcspn);
TESTED(strtok_r);
TESTED(strtok);
TESTED(strsep);
TESTED(strdup);
TESTED(strndup);
extern char *t_strchr(const char *, int);
extern char *t_strchrnul(const char *, int);
extern char *t_strstr(const char *, const char *);
extern char *t_strpbrk(const char *, const char *);
TESTED(free);
TESTED(qsort);
TESTED(qsort_r);
TESTED(bsearch);

#define BYTES 1200

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void fill_random(unsigned char *to, size_t n, uint64_t *seed, unsigned values)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(next_random(seed) % values);
}

/* A length: small ones often, and at times one that goes by vectors. */
static size_t some_length(uint64_t *seed, size_t most)
{
    uint64_t r = next_random(seed);
    return (r & 3) != 0 ? (r >> 8) % 40 % (most + 1) : (r >> 8) % (most + 1);
}

void test_memory(void)
{
    uint64_t seed = 1;
    static unsigned char ours[BYTES], theirs[BYTES], source[BYTES];
    for (int round = 0; round < 60000; round++) {
        fill_random(source, 64, &seed, 256);
        fill_random(source + next_random(&seed) % (BYTES - 8), 8, &seed, 256);
        memcpy(ours, theirs, BYTES);
        size_t to = next_random(&seed) % 300;
        size_t from = next_random(&seed) % 300;
        size_t n = some_length(&seed, BYTES - 300);
        switch (next_random(&seed) % 5) {
        case 0:
            CHECK(t_memcpy(ours + to, source + from, n) == ours + to);
            memcpy(theirs + to, source + from, n);
            break;
        case 1:
            CHECK(t_memmove(ours + to, ours + from, n) == ours + to);
            memmove(theirs + to, theirs + from, n);
            break;
        case 2:
            CHECK(t_mempcpy(ours + to, source + from, n) == ours + to + n);
            memcpy(theirs + to, source + from, n);
            break;
        case 3:
            t_bcopy(ours + from, ours + to, n);
            memmove(theirs + to, theirs + from, n);
            break;
        default:
            CHECK(t_memset(ours + to, (int)from, n) == ours + to);
            memset(theirs + to, (int)from, n);
        }
        CHECK(memcmp(ours, theirs, BYTES) == 0);
        CHECK(t_memcmp(ours, theirs, BYTES) == 0);
        CHECK(sign(t_memcmp(ours + to, source + from, n)) ==
              sign(memcmp(ours + to, source + from, n)));
        int byte = (int)(next_random(&seed) % 256);
        CHECK(t_memchr(ours + to, byte, n) == memchr(ours + to, byte, n));
        CHECK(t_memrchr(ours + to, byte, n) == memrchr(ours + to, byte, n));
    }
}

static void some_string(char *to, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = "aAbBc\xe9"[next_random(seed) % 6];
    to[n] = 0;
}

static void compare_searches(const char *s, const char *other, int c, size_t n)
{
    CHECK(t_strlen(s) == strlen(s));
    CHECK(t_strnlen(s, n) == strnlen(s, n));
    CHECK(sign(t_strcmp(s, other)) == sign(strcmp(s, other)));
    CHECK(sign(t_strncmp(s, other, n)) == sign(strncmp(s, other, n)));
    CHECK(sign(t_strcasecmp(s, other)) == sign(strcasecmp(s, other)));
    CHECK(sign(t_strncasecmp(s, other, n)) == sign(strncasecmp(s, other, n)));
    CHECK(t_strchr(s, c) == strchr(s, c));
    CHECK(t_strchrnul(s, c) == strchrnul(s, c));
    CHECK(t_strrchr(s, c) == strrchr(s, c));
    CHECK(t_strstr(s, other) == strstr(s, other));
    CHECK(t_strspn(s, other) == strspn(s, other));
    CHECK(t_strcspn(s, other) == strcspn(s, other));
    CHECK(t_strpbrk(s, other) == strpbrk(s, other));
}

static void compare_copies(const char *s, size_t at, size_t n)
{
    char ours[400], theirs[400];
    memset(ours, '#', sizeof ours);
    memset(theirs, '#', sizeof theirs);
    t_strcpy(ours + at, s);
    strcpy(theirs + at, s);
    t_strcat(ours + at, s);
    strcat(theirs + at, s);
    t_strncat(ours + at, s, n);
    strncat(theirs + at, s, n);
    CHECK(memcmp(ours, theirs, sizeof ours) == 0);
    CHECK(t_stpcpy(ours + at, s) - ours == stpcpy(theirs + at, s) - theirs);
    CHECK(t_stpncpy(ours + at, s, n) - ours == stpncpy(theirs + at, s, n) - theirs);
    CHECK(memcmp(ours, theirs, sizeof ours) == 0);
    t_strncpy(ours + at, s, n);
    strncpy(theirs + at, s, n);
    CHECK(memcmp(ours, theirs, sizeof ours) == 0);
}

static void compare_tokens(const char *s)
{
    char ours[100], theirs[100];
    strcpy(ours, s);
    strcpy(theirs, s);
    char *our_rest, *their_rest;
    char *our = t_strtok_r(ours, "aB", &our_rest);
    char *their = strtok_r(theirs, "aB", &their_rest);
    while (our != NULL && their != NULL) {
        CHECK(our - ours == their - theirs && strcmp(our, their) == 0);
        our = t_strtok_r(NULL, "aB", &our_rest);
        their = strtok_r(NULL, "aB", &their_rest);
    }
    CHECK(our == their);
    CHECK(memcmp(ours, theirs, strlen(s) + 1) == 0);
}

void test_strings(void)
{
    uint64_t seed = 2;
    char first[128], second[128];
    for (int round = 0; round < 60000; round++) {
        char *s = first + next_random(&seed) % 16;
        char *other = second + next_random(&seed) % 16;
        some_string(s, some_length(&seed, 90), &seed);
        some_string(other, next_random(&seed) % 4, &seed);
        size_t n = next_random(&seed) % 100;
        compare_searches(s, other, "aAbBcd"[next_random(&seed) % 6], n);
        compare_searches(s, s, 0, n);
        strcpy(other, s);
        if (*s != 0)
            other[next_random(&seed) % strlen(s)] ^= 1;
        compare_searches(s, other, '\xe9', n);
        compare_copies(s, next_random(&seed) % 16, n);
        compare_tokens(s);
        char *copy = t_strdup(s);
        CHECK(strcmp(copy, s) == 0);
        t_free(copy);
        copy = t_strndup(s, n);
        CHECK(strlen(copy) == strnlen(s, n) && strncmp(copy, s, n) == 0);
        t_free(copy);
    }
    char list[] = "a,,b";
    char *rest = list;
    CHECK(strcmp(t_strsep(&rest, ","), "a") == 0 && strcmp(t_strsep(&rest, ","), "") == 0);
    CHECK(strcmp(t_strsep(&rest, ","), "b") == 0 && t_strsep(&rest, ",") == NULL);
    char words[] = " one two";
    CHECK(strcmp(t_strtok(words, " "), "one") == 0 && strcmp(t_strtok(NULL, " "), "two") == 0);
    CHECK(t_strtok(NULL, " ") == NULL);
}

/* ---- sorting ---- */

/* Compares the first 4 bytes only, so that there are equals that differ. */
static int compare_keys(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return (x > y) - (x < y);
}

static int seed_of_context;

static int compare_downwards(const void *a, const void *b, void *context)
{
    CHECK(context == &seed_of_context);
    return compare_keys(b, a);
}

static void sort_once(size_t count, size_t size, unsigned keys, uint64_t *seed)
{
    unsigned char *ours = malloc(count * size + 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t key = (uint32_t)(next_random(seed) % keys);
        memset(ours + i * size, 0, size);
        memcpy(ours + i * size, &key, 4);
        if (size >= 8)
            memcpy(ours + i * size + 4, &(uint32_t){(uint32_t)i}, 4);
    }
    t_qsort(ours, count, size, compare_keys);
    for (size_t i = 1; i < count; i++) {
        unsigned char *before = ours + (i - 1) * size;
        CHECK(compare_keys(before, before + size) <= 0);
        uint32_t place, next;
        memcpy(&place, before + 4 % size, 4);
        memcpy(&next, before + size + 4 % size, 4);
        if (size >= 8 && compare_keys(before, before + size) == 0)
            CHECK(place < next);
    }
    for (uint32_t key = 0; key < 10; key++)
        CHECK(t_bsearch(&key, ours, count, size, compare_keys) ==
              bsearch(&key, ours, count, size, compare_keys));
    t_qsort_r(ours, count, size, compare_downwards, &seed_of_context);
    for (size_t i = 1; i < count; i++)
        CHECK(compare_keys(ours + (i - 1) * size, ours + i * size) >= 0);
    free(ours);
}

void test_sort(void)
{
    static const size_t sizes[] = {4, 8, 12, 16, 24, 100};
    uint64_t seed = 3;
    for (int round = 0; round < 600; round++) {
        size_t count = next_random(&seed) % (round % 20 == 0 ? 3000 : 40);
        unsigned keys = (unsigned)(next_random(&seed) % 100) + 1;
        sort_once(count, sizes[next_random(&seed) % 6], keys, &seed);
    }
}
