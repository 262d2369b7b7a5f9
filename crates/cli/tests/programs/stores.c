/* What a crash may keep of stores, and what orders them: stores KIND POOL run | stores KIND POOL check.
 * The check returns 1 if it sees what only the weaker answer allows. */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Words of 8 bytes: lines begin at 0, 8, 16, .. */
static volatile uint64_t *p;
static uint64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static volatile size_t some = 24;
struct four { uint64_t words[4]; } __attribute__((may_alias));
static const char *kind;

static int is(const char *name) { return !strcmp(kind, name); }
static void clwb(volatile void *at) { __asm__ volatile("clwb %0" : "+m"(*(volatile char *)at)); }
static void order(volatile void *at) { clwb(at); _mm_sfence(); }

/* ---- wide stores of words 17 to 19 or so: the last may be there without the first ---- */

static int wide(void)
{
    void *to = (void *)(p + 17);
    __m128i one = _mm_loadu_si128((const __m128i *)ones);
    if (is("vector"))
        _mm_storeu_si128(to, one);
    else if (is("aligned-vector"))
        _mm_store_si128((__m128i *)(p + 18), one);
    else if (is("assignment"))
        *(struct four *)(p + 16) = *(struct four *)ones;
    else if (is("unaligned"))
        __asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)((char *)to + 4)) : "r"(0x100000001ul));
    else if (is("rep")) {
        const void *from = ones;
        size_t bytes = 24;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    } else if (is("memcpy"))
        memcpy(to, ones, some);
    else if (is("memset"))
        memset(to, 1, some);
    else if (is("memmove"))
        memmove(to, ones, some);
    else if (is("cmpxchg16b")) {
        uint64_t low = 0, high = 0;
        __asm__ volatile("lock cmpxchg16b %0"
                         : "+m"(*(__int128 *)(p + 18)), "+a"(low), "+d"(high)
                         : "b"(1ul), "c"(1ul)
                         : "memory");
    } else if (is("two-stores")) {
        p[18] = 1;
        p[19] = 1;
    } else if (is("two-copies")) {
        memcpy((void *)(p + 18), ones, some - 16);
        memcpy((void *)(p + 19), ones, some - 16);
    } else if (is("direct") || is("direct-askew"))
        __asm__ volatile("movdir64b (%0), %1"
                         :
                         : "r"(ones), "r"(p + (is("direct") ? 16 : 18))
                         : "memory");
    else
        return 0;
    order((void *)(p + 16));
    return 1;
}

static int is_torn(void)
{
    const uint32_t *half = (const uint32_t *)p;
    if (is("unaligned"))
        return half[36] && !half[35];
    if (is("vector"))
        return p[18] && !p[17];
    if (is("assignment"))
        return p[19] && !p[16];
    return p[19] && !p[18];
}

/* ---- locked instructions in place of a fence ---- */

static uint64_t word;

static int locked(void)
{
    for (uint64_t i = 1; i < 3; i++) {
        p[0] = i;
        clwb(p);
        if (is("add-nothing"))
            __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
        else if (is("exchange-same"))
            __atomic_exchange_n(&word, 1, __ATOMIC_SEQ_CST);
        else if (is("store-same"))
            __atomic_store_n(&word, 0, __ATOMIC_SEQ_CST);
        else if (is("or-nothing"))
            __asm__ volatile("lock; orl $0, %0" : "+m"(word) : : "memory", "cc");
        else if (is("compare-same") || is("compare-fails")) {
            uint64_t expected = is("compare-fails") ? 7 : 0;
            __atomic_compare_exchange_n(&word, &expected, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        } else
            return 0;
        p[8] = i;
    }
    return 1;
}

/* ---- threads ---- */

static pthread_barrier_t barrier;

static void *flusher(void *argument)
{
    if (is("twice"))
        clwb(p);
    else {
        pthread_barrier_wait(&barrier);
        if (is("group-read"))
            word = p[0];
        order(p);
        p[8] = 1;
        order(p + 8);
    }
    return argument;
}

static int threads(void)
{
    if (!is("twice") && !is("group") && !is("group-read"))
        return 0;
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, flusher, NULL);
    if (is("twice")) {
        _mm_stream_si64((long long *)p, 1);
        _mm_stream_si64((long long *)p, 2);
        _mm_sfence();
        p[8] = 2;
    } else {
        p[0] = 1;
        pthread_barrier_wait(&barrier);
    }
    pthread_join(other, NULL);
    return 1;
}

int main(int count, char **words)
{
    int file = count > 3 ? open(words[2], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096))
        return 9;
    kind = words[1];
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (*words[3] == 'c')
        return is_torn() || p[8] > p[0];
    if (is("own-load")) {
        _mm_stream_si64((long long *)p, 1);
        p[8] = p[0];
        return 0;
    }
    return wide() || locked() || threads() ? 0 : 9;
}
