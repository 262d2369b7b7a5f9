/* memcpy and its kin. The program's copies are stores of the program, and after a crash it matters
 * how they were made: as here, by aligned words of 8 bytes, or by aligned vectors of two such
 * words, with smaller pieces only at the ends. In which order is nothing that a program may rely
 * on, so the stores between the two marks are one write, of which a crash may keep any words. */
#include "support.h"

#include <emmintrin.h>
#include <string.h>
#include <strings.h>

/* Loops that copy are not to become calls of the functions defined here. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

typedef uint16_t piece2 __attribute__((aligned(1), may_alias));
typedef uint32_t piece4 __attribute__((aligned(1), may_alias));
typedef uint64_t piece8 __attribute__((aligned(1), may_alias));

/* As `abi.rs` has them. They are no instructions of the program. */
#define BEGIN_COPY() __asm__ volatile("nopl 0x5ea00b01" ::: "memory")
#define END_COPY() __asm__ volatile("nopl 0x5ea00b02" ::: "memory")

#define COPY(type, to, from) (*(type *)(to) = *(const type *)(from))
/* Longer copies go by vectors. */
#define VECTORS_FROM 128

static inline void copy_vectors(char *to, const char *from)
{
    __m128i a = _mm_loadu_si128((const __m128i *)from);
    __m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(from + 48));
    _mm_store_si128((__m128i *)to, a);
    _mm_store_si128((__m128i *)(to + 16), b);
    _mm_store_si128((__m128i *)(to + 32), c);
    _mm_store_si128((__m128i *)(to + 48), d);
}

#define STEP_UP(type)                                                                              \
    do {                                                                                           \
        COPY(type, to, from);                                                                      \
        to += sizeof(type), from += sizeof(type), n -= sizeof(type);                               \
    } while (0)
#define STEP_DOWN(type)                                                                            \
    do {                                                                                           \
        to -= sizeof(type), from -= sizeof(type), n -= sizeof(type);                               \
        COPY(type, to, from);                                                                      \
    } while (0)
#define AT(bits) ((uintptr_t)to & (bits))

/* From the first byte to the last; right too if `to` is below `from` and they overlap. */
static inline void copy_up(char *to, const char *from, size_t n)
{
    BEGIN_COPY();
    if (AT(1) && n >= 1)
        STEP_UP(char);
    if (AT(2) && n >= 2)
        STEP_UP(piece2);
    if (AT(4) && n >= 4)
        STEP_UP(piece4);
    if (n >= VECTORS_FROM) {
        if (AT(8))
            STEP_UP(piece8);
        for (; n >= 64; to += 64, from += 64, n -= 64)
            copy_vectors(to, from);
    }
    while (n >= 8)
        STEP_UP(piece8);
    if (n >= 4)
        STEP_UP(piece4);
    if (n >= 2)
        STEP_UP(piece2);
    if (n >= 1)
        STEP_UP(char);
    END_COPY();
}

/* From the last byte to the first, for `to` above `from`. */
static inline void copy_down(char *to, const char *from, size_t n)
{
    BEGIN_COPY();
    to += n;
    from += n;
    if (AT(1) && n >= 1)
        STEP_DOWN(char);
    if (AT(2) && n >= 2)
        STEP_DOWN(piece2);
    if (AT(4) && n >= 4)
        STEP_DOWN(piece4);
    if (n >= VECTORS_FROM) {
        if (AT(8))
            STEP_DOWN(piece8);
        while (n >= 64) {
            to -= 64, from -= 64, n -= 64;
            copy_vectors(to, from);
        }
    }
    while (n >= 8)
        STEP_DOWN(piece8);
    if (n >= 4)
        STEP_DOWN(piece4);
    if (n >= 2)
        STEP_DOWN(piece2);
    if (n >= 1)
        STEP_DOWN(char);
    END_COPY();
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    copy_up(to, from, n);
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    if ((uintptr_t)to - (uintptr_t)from >= n)
        copy_up(to, from, n);
    else
        copy_down(to, from, n);
    return to;
}

void *mempcpy(void *restrict to, const void *restrict from, size_t n)
{
    copy_up(to, from, n);
    return (char *)to + n;
}
void *__mempcpy(void *restrict, const void *restrict, size_t) ALIAS(mempcpy);

void bcopy(const void *from, void *to, size_t n)
{
    memmove(to, from, n);
}

#define FILL(type)                                                                                 \
    do {                                                                                           \
        *(type *)to = (type)pattern;                                                               \
        to += sizeof(type), n -= sizeof(type);                                                     \
    } while (0)

static inline void fill(char *to, int byte, size_t n)
{
    uint64_t pattern = (unsigned char)byte * 0x0101010101010101ul;
    BEGIN_COPY();
    if (AT(1) && n >= 1)
        FILL(char);
    if (AT(2) && n >= 2)
        FILL(piece2);
    if (AT(4) && n >= 4)
        FILL(piece4);
    if (n >= VECTORS_FROM) {
        __m128i vector = _mm_set1_epi64x((long long)pattern);
        if (AT(8))
            FILL(piece8);
        for (; n >= 16; to += 16, n -= 16)
            _mm_store_si128((__m128i *)to, vector);
    }
    while (n >= 8)
        FILL(piece8);
    if (n >= 4)
        FILL(piece4);
    if (n >= 2)
        FILL(piece2);
    if (n >= 1)
        FILL(char);
    END_COPY();
}

void *memset(void *to, int byte, size_t n)
{
    fill(to, byte, n);
    return to;
}

void bzero(void *to, size_t n)
{
    fill(to, 0, n);
}

void explicit_bzero(void *to, size_t n)
{
    fill(to, 0, n);
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a;
    const unsigned char *y = b;
    for (; n >= 8; x += 8, y += 8, n -= 8) {
        uint64_t left = *(const piece8 *)x;
        uint64_t right = *(const piece8 *)y;
        if (left != right)
            return __builtin_bswap64(left) < __builtin_bswap64(right) ? -1 : 1;
    }
    for (; n > 0; x++, y++, n--) {
        if (*x != *y)
            return *x - *y;
    }
    return 0;
}
int bcmp(const void *, const void *, size_t) ALIAS(memcmp);
int __memcmpeq(const void *, const void *, size_t) ALIAS(memcmp);

/* Not 0 if a byte of the word is 0; its lowest bit is then in the first such byte. */
static inline uint64_t zeros(uint64_t word)
{
    return (word - 0x0101010101010101ul) & ~word & 0x8080808080808080ul;
}

void *memchr(const void *s, int byte, size_t n)
{
    const unsigned char *at = s;
    uint64_t pattern = (unsigned char)byte * 0x0101010101010101ul;
    for (; n > 0 && (uintptr_t)at & 7; at++, n--) {
        if (*at == (unsigned char)byte)
            return (void *)at;
    }
    for (; n >= 8; at += 8, n -= 8) {
        uint64_t found = zeros(*(const piece8 *)at ^ pattern);
        if (found != 0)
            return (void *)(at + (__builtin_ctzl(found) >> 3));
    }
    for (; n > 0; at++, n--) {
        if (*at == (unsigned char)byte)
            return (void *)at;
    }
    return NULL;
}

void *rawmemchr(const void *s, int byte)
{
    return memchr(s, byte, SIZE_MAX - (uintptr_t)s);
}

void *memrchr(const void *s, int byte, size_t n)
{
    const unsigned char *start = s;
    while (n > 0) {
        n--;
        if (start[n] == (unsigned char)byte)
            return (void *)(start + n);
    }
    return NULL;
}

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return memcpy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return memmove(to, from, n);
}

void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return mempcpy(to, from, n);
}

void *__memset_chk(void *to, int byte, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    return memset(to, byte, n);
}

void __explicit_bzero_chk(void *to, size_t n, size_t room)
{
    if (n > room)
        support_overflow();
    fill(to, 0, n);
}
