/* features.c: what compiled C does besides loads and stores; each test prints "name ok", or what is
 * wrong. The output is the same wherever it runs: no addresses, no times.
 *
 *     features              runs all tests
 *     features NAME...      runs these
 *
 * Link it with -lm -latomic. */
#define _GNU_SOURCE
#include <alloca.h>
#include <cpuid.h>
#include <errno.h>
#include <immintrin.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_int failures;

/* Says what is wrong; the test goes on. */
#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            printf("%s:%d: %s\n", __func__, __LINE__, #condition);            \
            failures++;                                                       \
        }                                                                     \
    } while (0)

/* Keeps the compiler from knowing a value. */
#define HIDE(value) __asm__ volatile("" : "+r"(value))

static void run_threads(unsigned threads, void *(*work)(void *))
{
    pthread_t handles[8];
    for (uintptr_t t = 0; t < threads; t++)
        CHECK(pthread_create(&handles[t], NULL, work, (void *)t) == 0);
    for (uintptr_t t = 0; t < threads; t++) {
        void *result = NULL;
        CHECK(pthread_join(handles[t], &result) == 0);
        CHECK(result == (void *)(t + 1));
    }
}

/* Atomics. */

#define ATOMICS(bits)                                                                      \
    static void atomics_##bits(void)                                                       \
    {                                                                                      \
        static _Atomic uint##bits##_t at;                                                  \
        uint##bits##_t old = 5, top = (uint##bits##_t)-1;                                  \
        atomic_store(&at, 5);                                                              \
        CHECK(atomic_exchange(&at, top) == 5);                                             \
        CHECK(atomic_fetch_add(&at, 7) == top);                                            \
        CHECK(atomic_load(&at) == 6);                                                      \
        CHECK(!atomic_compare_exchange_strong(&at, &old, 1) && old == 6);                  \
        CHECK(atomic_compare_exchange_strong(&at, &old, 0x5a));                            \
        CHECK(atomic_fetch_sub(&at, 1) == 0x5a);                                           \
        CHECK(atomic_fetch_or(&at, 0x22) == 0x59);                                         \
        CHECK(atomic_fetch_and(&at, 0x0f) == 0x7b);                                        \
        CHECK(atomic_fetch_xor(&at, 0xff) == 0x0b);                                        \
        atomic_fetch_add_explicit(&at, 1, memory_order_relaxed);                           \
        atomic_store_explicit(&at, (uint##bits##_t)(at + 1), memory_order_release);        \
        CHECK(atomic_load_explicit(&at, memory_order_acquire) == 0xf6);                    \
        while (!atomic_compare_exchange_weak(&at, &old, 9))                                \
            continue;                                                                      \
        CHECK(at == 9 && at++ == 9 && at == 10);                                           \
    }
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

static struct {
    _Alignas(16) uint64_t low;
    uint64_t high;
} wide;

/* Replaces both words if they are what old says, else puts what they are there. */
static int exchange_16(uint64_t old[2], uint64_t low, uint64_t high)
{
    unsigned char done;
    __asm__ volatile("lock cmpxchg16b %1; sete %0"
                     : "=q"(done), "+m"(wide), "+a"(old[0]), "+d"(old[1])
                     : "b"(low), "c"(high)
                     : "memory", "cc");
    return done;
}

static void *add_wide(void *thread)
{
    for (unsigned n = 0; n < 200; n++) {
        uint64_t old[2] = {0, 0};
        while (!exchange_16(old, old[0] + 1, old[1] + 3))
            continue;
    }
    return (void *)((uintptr_t)thread + 1);
}

static void atomics_128(void)
{
    uint64_t old[2] = {1, 2};
    wide.low = wide.high = 0;
    CHECK(!exchange_16(old, 7, 8) && old[0] == 0 && old[1] == 0);
    CHECK(exchange_16(old, ~0ull, 8) && wide.low == ~0ull && wide.high == 8);
    wide.low = wide.high = 0;
    run_threads(4, add_wide);
    CHECK(wide.low == 800 && wide.high == 2400);
}

/* Of libatomic. */
static _Atomic unsigned __int128 wider;

static void *add_wider(void *thread)
{
    for (unsigned n = 0; n < 200; n++)
        wider += ((unsigned __int128)2 << 64) + 5;
    return (void *)((uintptr_t)thread + 1);
}

static void atomics_of_a_library(void)
{
    unsigned __int128 old = 3, many = ((unsigned __int128)1600 << 64) + 4000;
    wider = 0;
    run_threads(4, add_wider);
    CHECK(wider == many);
    CHECK(!atomic_compare_exchange_strong(&wider, &old, 1) && old == many);
    CHECK(atomic_compare_exchange_strong(&wider, &old, 1) && atomic_exchange(&wider, 6) == 1);
    CHECK(atomic_fetch_or(&wider, 9) == 6 && atomic_fetch_sub(&wider, 15) == 15 && wider == 0);
}

static _Atomic uint16_t narrow[4];
static atomic_flag flag = ATOMIC_FLAG_INIT;
static unsigned long flagged;

static void *add_narrow(void *thread)
{
    for (unsigned n = 0; n < 500; n++) {
        narrow[(uintptr_t)thread % 4]++; /* neighbours in one word */
        while (atomic_flag_test_and_set(&flag))
            _mm_pause();
        flagged++;
        atomic_flag_clear(&flag);
    }
    return (void *)((uintptr_t)thread + 1);
}

static void atomics_shared(void)
{
    memset(narrow, 0, sizeof narrow);
    flagged = 0;
    run_threads(4, add_narrow);
    CHECK(narrow[0] == 500 && narrow[1] == 500 && narrow[2] == 500 && narrow[3] == 500);
    CHECK(flagged == 2000);
}

/* Inline assembly. */

static void locked_instructions(void)
{
    static _Alignas(64) uint64_t word;
    uint64_t value = 3;
    unsigned char bit;
    word = 1;
    __asm__ volatile("lock addq $4, %0" : "+m"(word) : : "cc");
    CHECK(word == 5);
    __asm__ volatile("lock xaddq %0, %1" : "+r"(value), "+m"(word) : : "cc");
    CHECK(value == 5 && word == 8);
    __asm__ volatile("lock btsq $1, %1; setc %0" : "=q"(bit), "+m"(word) : : "cc");
    CHECK(!bit && word == 10);
    __asm__ volatile("lock btrq $3, %1; setc %0" : "=q"(bit), "+m"(word) : : "cc");
    CHECK(bit && word == 2);
    __asm__ volatile("lock btcl $0, %0" : "+m"(word) : : "cc");
    __asm__ volatile("lock negq %0" : "+m"(word) : : "cc");
    CHECK(word == (uint64_t)-3);
    __asm__ volatile("lock notq %0" : "+m"(word));
    __asm__ volatile("lock incw %0" : "+m"(word) : : "cc");
    __asm__ volatile("lock decb %0" : "+m"(word) : : "cc");
    __asm__ volatile("lock; orl $0x100, %0" : "+m"(word) : : "cc");
    CHECK(word == 0x102);
    __asm__ volatile("xchgb %b0, %1" : "+q"(value), "+m"(word));
    CHECK(word == 0x105 && (value & 0xff) == 2);
    __asm__ volatile("lock cmpxchg8b %0"
                     : "+m"(word)
                     : "a"(0x105), "d"(0), "b"(77), "c"(1)
                     : "cc", "memory");
    CHECK(word == (1ull << 32 | 77));
}

static int has_leaf_7(unsigned bit)
{
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> bit & 1);
}

static void flushes(void)
{
    static _Alignas(64) volatile uint64_t line[8];
    for (unsigned n = 0; n < 8; n++) {
        line[n] = n + 1;
        __asm__ volatile("clflush %0" : "+m"(line[n]));
    }
    if (has_leaf_7(23)) {
        __asm__ volatile("clflushopt %0" : "+m"(line[1]));
        __asm__ volatile(".byte 0x66; clflush %0" : "+m"(line[2])); /* PMDK's clflushopt */
        __asm__ volatile(".byte 0x66, 0x0f, 0xae, 0x38" : : "a"(&line[3]) : "memory");
    }
    __asm__ volatile("sfence" : : : "memory");
    if (has_leaf_7(24)) {
        line[4] = 50;
        __asm__ volatile("clwb %0" : "+m"(line[4]));
        __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(line[5])); /* PMDK's clwb */
        __asm__ volatile(".byte 0x66, 0x0f, 0xae, 0x30" : : "a"(&line[6]) : "memory");
        __asm__ volatile("clwb 8(%0,%1,8)" : : "r"(&line[0]), "r"(3ul) : "memory");
    } else {
        line[4] = 50;
    }
    __asm__ volatile(".byte 0x0f, 0xae, 0xf8" : : : "memory"); /* sfence */
    _mm_mfence();
    _mm_lfence();
    uint64_t sum = 0;
    for (unsigned n = 0; n < 8; n++)
        sum += line[n];
    CHECK(sum == 36 - 5 + 50);
}

__attribute__((target("avx"))) static void stream_avx(float *at)
{
    _mm256_stream_ps(at, _mm256_set1_ps(2));
    _mm256_stream_pd((double *)(at + 8), _mm256_set1_pd(3));
    _mm256_stream_si256((__m256i *)(at + 16), _mm256_set1_epi32(7));
}

__attribute__((target("avx512f"))) static void stream_avx512(float *at)
{
    _mm512_stream_si512((__m512i *)at, _mm512_set1_epi32(9));
}

static void non_temporal(void)
{
    static _Alignas(64) int words[64];
    static _Alignas(64) float reals[64];
    _mm_stream_si32(&words[1], 11);
    _mm_stream_si64((long long *)&words[2], 0x1600000021);
    _mm_stream_si128((__m128i *)&words[4], _mm_set_epi32(4, 3, 2, 1));
    _mm_stream_ps(&reals[0], _mm_set1_ps(1.5f));
    _mm_stream_pd((double *)&reals[4], _mm_set1_pd(2.5));
    __asm__ volatile("movq %1, %%xmm0; movntdq %%xmm0, %0"
                     : "=m"(words[8])
                     : "r"(0x500000006)
                     : "xmm0", "memory");
    __asm__ volatile("movntiq %1, %0" : "=m"(words[12]) : "r"(99l) : "memory");
    __m128i bytes = _mm_set1_epi8(0x77);
    _mm_maskmoveu_si128(bytes, _mm_set_epi32(0, 0x80, 0, 1 << 31), (char *)&words[16]);
    __asm__ volatile("movq %1, %%mm0; maskmovq %%mm0, %%mm0; emms"
                     :
                     : "D"(&words[20]), "r"(0xff00000000000080)
                     : "mm0", "memory");
    _mm_sfence();
    CHECK(words[1] == 11 && words[2] == 0x21 && words[3] == 0x16);
    CHECK(words[4] == 1 && words[7] == 4 && words[8] == 6 && words[9] == 5 && words[12] == 99);
    CHECK(words[16] == 0x77000000 && words[17] == 0 && words[18] == 0x77 && words[19] == 0);
    CHECK(words[20] == 0x80 && words[21] == (int)0xff000000 && words[22] == 0);
    CHECK(reals[0] == 1.5f && reals[3] == 1.5f && ((double *)reals)[2] == 2.5);
    memset(reals, 0, sizeof reals);
    if (__builtin_cpu_supports("avx")) {
        stream_avx(&reals[16]);
        _mm_sfence();
        CHECK(reals[16] == 2 && reals[23] == 2 && ((double *)reals)[12] == 3);
        CHECK(((int *)reals)[32] == 7 && ((int *)reals)[39] == 7 && reals[40] == 0);
    }
    if (__builtin_cpu_supports("avx512f")) {
        stream_avx512(&reals[48]);
        _mm_sfence();
        CHECK(((int *)reals)[48] == 9 && ((int *)reals)[63] == 9 && reals[47] == 0);
    }
}

static void string_instructions(void)
{
    char from[100], to[100];
    uint64_t words[10] = {0};
    void *source = from, *target = to;
    size_t count = 37;
    for (unsigned n = 0; n < 100; n++)
        from[n] = (char)(n * 3), to[n] = -1;
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    CHECK(source == from + 37 && target == to + 37 && count == 0);
    CHECK(!memcmp(from, to, 37) && to[37] == -1);
    target = words, count = 9;
    __asm__ volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(0x1234567890abul) : "memory");
    CHECK(words[0] == 0x1234567890ab && words[8] == words[0] && words[9] == 0);
    source = words, target = to + 3, count = 4;
    __asm__ volatile("rep movsq" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    CHECK(!memcmp(to + 3, words, 32));
    source = from + 99, target = to + 99, count = 5;
    __asm__ volatile("std; rep movsb; cld" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    CHECK(!memcmp(to + 95, from + 95, 5) && to[94] == -1);
    target = from, count = 100;
    unsigned char equal;
    __asm__ volatile("repne scasb; sete %0"
                     : "=q"(equal), "+D"(target), "+c"(count)
                     : "a"(30)
                     : "cc", "memory");
    CHECK(equal && target == from + 11 && count == 89);
    memcpy(to, from, 100);
    to[60]++;
    source = from, target = to, count = 100;
    __asm__ volatile("repe cmpsb; setb %0"
                     : "=q"(equal), "+S"(source), "+D"(target), "+c"(count)
                     :
                     : "cc", "memory");
    CHECK(equal && count == 39 && source == from + 61 && target == to + 61);
}

/* The library's memory and string functions. */

static void copies(void)
{
    static unsigned char from[320], to[336];
    for (unsigned n = 0; n < sizeof from; n++)
        from[n] = (unsigned char)(n * 7 + 1);
    for (size_t length = 0; length <= 300; length++) {
        size_t skew = length % 16, hidden = length;
        HIDE(hidden);
        memset(to, 0xee, sizeof to);
        CHECK(memcpy(to + 8 + skew / 2, from + skew, hidden) == to + 8 + skew / 2);
        CHECK(!memcmp(to + 8 + skew / 2, from + skew, hidden));
        CHECK(to[7 + skew / 2] == 0xee && to[8 + skew / 2 + length] == 0xee);
        memmove(to + 8 + skew / 2 + 3, to + 8 + skew / 2, hidden);
        CHECK(!memcmp(to + 11 + skew / 2, from + skew, hidden));
        memset(to + 5, 0x11, hidden);
        CHECK(length == 0 || (to[5] == 0x11 && to[4 + length] == 0x11 && to[4] == 0xee));
    }
}

static void big_copy(void)
{
    size_t bytes = 1 << 20;
    unsigned char *from = malloc(bytes), *to = malloc(bytes);
    for (size_t n = 0; n < bytes; n++)
        from[n] = (unsigned char)(n ^ n >> 8);
    memset(to, 0, bytes);
    memcpy(to, from, bytes);
    CHECK(!memcmp(to, from, bytes));
    memmove(to + 1000, to, bytes - 1000);
    CHECK(!memcmp(to + 1000, from, bytes - 1000) && !memcmp(to, from, 1000));
    free(from);
    free(to);
}

static int compare(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

static void strings(void)
{
    char text[200], copy[200], *save, *word, *more = " of memory";
    size_t room = 20;
    int read, numbers[500], wanted = 250, parts = 0;
    strcpy(text, "persist");
    strcat(text, "ency");
    HIDE(room);
    HIDE(more);
    strncat(text, more, 5);
    CHECK(!strcmp(text, "persistency of m") && strlen(text) == 16 && strnlen(text, 9) == 9);
    CHECK(strchr(text, 'c') == text + 9 && strrchr(text, 's') == text + 5);
    CHECK(strstr(text, "of") == text + 12 && memchr(text, 'm', 16) == text + 15);
    CHECK(!strncmp(text, "persona", 4) && strncmp(text, "persona", 5) < 0);
    CHECK(!strcasecmp("MAGIC", "magic") && strspn(text, "epr") == 3 && strcspn(text, " ") == 11);
    CHECK(snprintf(copy, room, "%5d|%-6s|%#x|%.3f", 42, "ab", 255, 2.5) == 23);
    CHECK(!strcmp(copy, "   42|ab    |0xff|2"));
    CHECK(sscanf("17 x 3.25", "%d %c %lf", &read, copy, &(double){0}) == 3 && read == 17);
    CHECK(strtol("-0x1f", NULL, 16) == -31 && strtod("1e3", NULL) == 1000 && atoi("12z") == 12);
    strcpy(copy, "a,b;;c");
    for (word = strtok_r(copy, ",;", &save); word; word = strtok_r(NULL, ",;", &save))
        parts += *word;
    CHECK(parts == 'a' + 'b' + 'c');
    word = strdup(text);
    CHECK(!strcmp(word, text) && word != text);
    free(word);
    for (int n = 0; n < 500; n++)
        numbers[n] = n * 211 % 500;
    qsort(numbers, 500, sizeof *numbers, compare);
    for (int n = 0; n < 500; n++)
        CHECK(numbers[n] == n);
    CHECK((int *)bsearch(&wanted, numbers, 500, sizeof *numbers, compare) == numbers + 250);
}

static void files(void)
{
    char path[] = "/tmp/features-XXXXXX", back[64] = "", line[64];
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, "one two\nthree\n", 14) == 14);
    CHECK(lseek(file, 4, SEEK_SET) == 4 && read(file, back, 3) == 3 && !strcmp(back, "two"));
    CHECK(pwrite(file, "T", 1, 4) == 1 && pread(file, back, 4, 4) == 4);
    CHECK(!memcmp(back, "Two\n", 4) && fsync(file) == 0 && close(file) == 0);
    FILE *stream = fopen(path, "r+");
    CHECK(stream && fgets(line, sizeof line, stream) && !strcmp(line, "one Two\n"));
    CHECK(fread(back, 1, 64, stream) == 6 && !memcmp(back, "three\n", 6) && feof(stream));
    CHECK(fseek(stream, 0, SEEK_END) == 0 && fprintf(stream, "%d\n", 4) == 2);
    rewind(stream);
    unsigned lines = 0;
    for (int c; (c = getc(stream)) != EOF;)
        lines += c == '\n';
    CHECK(lines == 3 && fclose(stream) == 0 && unlink(path) == 0);
    errno = 0;
    CHECK(!fopen(path, "r") && errno == ENOENT);
}

static void heap(void)
{
    static unsigned char *parts[200];
    unsigned sizes[200];
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned n = round; n < 200; n += round + 1) {
            free(parts[n]);
            sizes[n] = (n * 37 + round * 1001) % 3000;
            parts[n] = malloc(sizes[n] + 1);
            memset(parts[n], (int)n, sizes[n] + 1);
        }
        for (unsigned n = round; n < 200; n += round + 1)
            CHECK(parts[n][0] == (unsigned char)n && parts[n][sizes[n]] == (unsigned char)n);
    }
    for (unsigned n = 0; n < 200; n++)
        free(parts[n]), parts[n] = NULL;
    int *zeros = calloc(1000, sizeof *zeros);
    for (unsigned n = 0; n < 1000; n++)
        failures += zeros[n]++ != 0;
    zeros = realloc(zeros, 300000 * sizeof *zeros);
    CHECK(zeros[0] == 1 && zeros[999] == 1);
    zeros = realloc(zeros, 10 * sizeof *zeros);
    CHECK(zeros[9] == 1);
    free(zeros);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0);
    free(aligned);
    aligned = aligned_alloc(64, 128);
    CHECK((uintptr_t)aligned % 64 == 0);
    free(aligned);
}

/* The language. */

static _Thread_local int own = 5;
static _Thread_local struct {
    long words[20];
} own_zero;

static void *use_own(void *thread)
{
    CHECK(own == 5 && own_zero.words[19] == 0);
    for (unsigned n = 0; n < 100; n++)
        own += (int)(uintptr_t)thread, own_zero.words[n % 20]++;
    CHECK(own == 5 + 100 * (int)(uintptr_t)thread && own_zero.words[7] == 5);
    return (void *)((uintptr_t)thread + 1);
}

static void thread_local_storage(void)
{
    own = 5;
    run_threads(4, use_own);
    CHECK(own == 5);
}

static jmp_buf back_to;

static void descend(int depth)
{
    volatile char space[100];
    space[depth % 100] = 1;
    if (depth == 50)
        longjmp(back_to, 9);
    if (depth < 99)
        descend(depth + 1);
    space[0]++;
}

static void long_jumps(void)
{
    volatile int turns = 0;
    int code = setjmp(back_to);
    turns++;
    if (code == 0)
        descend(0);
    CHECK(code == 9 && turns == 2);
}

static void floating_point(void)
{
    long double product = 1;
    volatile double third = 1.0 / 3;
    for (int n = 1; n <= 25; n++)
        product *= n;
    CHECK(product == 15511210043330985984000000.0L);
    CHECK(fabsl(expl(1) - 2.718281828459045235360L) < 1e-18L);
    CHECK(third * 3 == 1 && (float)third * 3 == 1.0f && sqrt(2) * sqrt(2) != 2);
    CHECK(lrint(2.5) == 2 && floor(-1.5) == -2 && isnan(NAN) && fmod(7.5, 2) == 1.5);
    volatile unsigned long big = 1ul << 63;
    CHECK((double)big == 9223372036854775808.0 && (unsigned long)(double)big == big);
}

__attribute__((target("avx2"))) static long sum_avx2(const int *at, unsigned count)
{
    __m256i sum = _mm256_setzero_si256();
    int lanes[8];
    for (unsigned n = 0; n < count; n += 8)
        sum = _mm256_add_epi32(sum, _mm256_loadu_si256((const __m256i *)(at + n)));
    _mm256_storeu_si256((__m256i *)lanes, sum);
    long total = 0;
    for (unsigned n = 0; n < 8; n++)
        total += lanes[n];
    return total;
}

__attribute__((target("avx2"))) static void masked_avx2(int *at)
{
    __m256i mask = _mm256_set_epi32(0, -1, 0, -1, 0, -1, 0, -1);
    _mm256_maskstore_epi32(at, mask, _mm256_set1_epi32(-5));
    __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    int gathered[8];
    _mm256_storeu_si256((__m256i *)gathered, _mm256_i32gather_epi32(at, index, 4));
    CHECK(gathered[0] == -5 && gathered[1] == 1 && gathered[6] == -5 && gathered[7] == 7);
}

__attribute__((target("avx512f,avx512bw"))) static void masked_avx512(int *at)
{
    __m512i steps = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int n = 0; n < 160; n++)
        at[n] = n;
    _mm512_mask_storeu_epi32(at, 0x8001, _mm512_set1_epi32(-1));
    CHECK(at[0] == -1 && at[1] == 1 && at[14] == 14 && at[15] == -1);
    _mm512_mask_storeu_epi8(at + 16, 0x11, _mm512_set1_epi8(0));
    CHECK(at[16] == 0 && at[17] == 0 && at[18] == 18);
    _mm512_mask_compressstoreu_epi32(at + 32, 0xa000, steps);
    CHECK(at[32] == 13 && at[33] == 15 && at[34] == 34);
    _mm512_mask_i32scatter_epi32(at + 48, 0xfffe, steps, _mm512_set1_epi32(7), 8);
    CHECK(at[48] == 48 && at[50] == 7 && at[51] == 51 && at[78] == 7 && at[80] == 80);
    __m512i some = _mm512_maskz_loadu_epi32(0x8, at + 80);
    CHECK(_mm512_mask_reduce_add_epi32(0xffff, some) == 83);
}

/* Memory that ends with a page, of which masked accesses may name what comes after it. */
__attribute__((target("avx512f"))) static void masked_at_the_end(void)
{
    size_t page = 4096;
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *last = (int *)(pages + page) - 2;
    CHECK(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    _mm512_mask_storeu_epi32(last, 3, _mm512_set1_epi32(5));
    __m512i some = _mm512_maskz_loadu_epi32(3, last);
    CHECK(last[1] == 5 && _mm512_reduce_add_epi32(some) == 10);
    munmap(pages, page);
}

static void vectors(void)
{
    static _Alignas(32) int at[800];
    long sum = 0;
    for (int n = 0; n < 800; n++)
        sum += at[n] = n % 8 ? n : n + 3;
    long wide_sum = sum;
    if (__builtin_cpu_supports("avx2")) {
        wide_sum = sum_avx2(at, 800);
        masked_avx2(at);
    }
    CHECK(wide_sum == sum && at[9] == 9);
    if (__builtin_cpu_supports("avx512bw")) {
        masked_avx512(at + 160);
        masked_at_the_end();
    }
    __m128i four = _mm_loadu_si128((const __m128i *)(at + 9));
    CHECK(_mm_cvtsi128_si32(_mm_shuffle_epi32(four, 0xff)) == 12);
}

static int add(int a, int b)
{
    return a + b;
}

static int multiply(int a, int b)
{
    return a * b;
}

static int apply_all(int count, ...)
{
    va_list list;
    int result = 1;
    va_start(list, count);
    for (int n = 0; n < count; n++) {
        int (*function)(int, int) = va_arg(list, int (*)(int, int));
        result = function(result, va_arg(list, int)) + (int)va_arg(list, double);
    }
    va_end(list);
    return result;
}

__attribute__((noipa)) static double halved(double number)
{
    return number / 2;
}

/* Passes a number on, and the result back, in a register that it does not name. */
__attribute__((noipa)) static double passed(double number, long *steps)
{
    ++*steps;
    double half = halved(number);
    ++*steps;
    return half;
}

static void calls(void)
{
    long steps = 0;
    CHECK(passed(2.5, &steps) == 1.25 && steps == 2);
    int (*table[2])(int, int) = {add, multiply}, hidden = 1;
    HIDE(hidden);
    CHECK(table[hidden](6, 7) == 42 && table[!hidden](6, 7) == 13);
    CHECK(apply_all(3, add, 4, 0.5, multiply, 6, 2.0, add, -2, 1.5) == 31);
    CHECK(apply_all(5, add, 1, 0., add, 1, 0., add, 1, 0., add, 1, 0., multiply, 2, 1.) == 11);
}

static unsigned ackermann(unsigned m, unsigned n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static unsigned sum_of_squares(unsigned count)
{
    unsigned squares[count], sum = 0;
    unsigned char *space = alloca(count * 3);
    for (unsigned n = 0; n < count; n++)
        squares[n] = n * n, space[n * 3] = (unsigned char)n;
    for (unsigned n = 0; n < count; n++)
        sum += squares[n] + space[n * 3] - (unsigned char)n;
    return sum;
}

static void stacks(void)
{
    CHECK(ackermann(2, 30) == 63);
    CHECK(sum_of_squares(100) == 328350 && sum_of_squares(1) == 0);
    volatile char deep[100000];
    deep[0] = deep[99999] = 3;
    CHECK(deep[0] + deep[99999] == 6);
}

struct large {
    int head, many[70];
    char tail;
};

static struct large changed(struct large large, int by)
{
    large.head += by;
    large.many[69] -= by;
    return large;
}

static void structs(void)
{
    struct large one = {.head = 1, .many[69] = 2, .tail = 'x'}, two;
    two = changed(one, 10);
    CHECK(two.head == 11 && two.many[69] == -8 && two.tail == 'x' && one.head == 1);
    struct {
        unsigned a : 3, b : 13;
        signed c : 5;
        unsigned long d : 40;
        _Bool e : 1;
    } bits = {0};
    for (unsigned n = 0; n < 20; n++)
        bits.a += 3, bits.b += 1000, bits.c--, bits.d += 1ull << 36, bits.e ^= 1;
    CHECK(bits.a == (60 & 7) && bits.b == (20000 & 8191) && bits.c == 12 && !bits.e);
    CHECK(bits.d == (20ull << 36 & ((1ull << 40) - 1)));
    struct __attribute__((packed)) {
        char pad;
        uint64_t word;
        uint32_t half;
    } packed[12];
    for (unsigned n = 0; n < 12; n++) /* some of the words cross a line */
        packed[n].word = n * 0x0101010101010101u, packed[n].half = n;
    for (unsigned n = 0; n < 12; n++)
        CHECK(packed[n].word == n * 0x0101010101010101u && packed[n].half == n);
}

static int name_value(int what)
{
    switch (what) {
    case 0: return 7;
    case 1: return 70;
    case 2: return 6;
    case 3: return -1;
    case 4: return 400;
    case 5: return 13;
    case 6: return 0;
    case 7: return 22;
    default: return -100;
    }
}

static int interpret(const unsigned char *code)
{
    static const void *const labels[] = {&&push, &&sum, &&times, &&jump, &&stop};
    int stack[8] = {0}, top = 0, rounds = 0;
    goto *labels[*code++];
push:
    stack[top++] = *code++;
    goto *labels[*code++];
sum:
    top--, stack[top - 1] += stack[top];
    goto *labels[*code++];
times:
    top--, stack[top - 1] *= stack[top];
    goto *labels[*code++];
jump:
    if (++rounds < 3)
        code -= *code + 1;
    else
        code++;
    goto *labels[*code++];
stop:
    return stack[0];
}

static void jumps(void)
{
    int sum = 0;
    for (int n = -1; n < 10; n++) {
        int hidden = n;
        HIDE(hidden);
        sum += name_value(hidden);
    }
    CHECK(sum == 7 + 70 + 6 - 1 + 400 + 13 + 22 - 300);
    static const unsigned char code[] = {0, 5, 0, 3, 1, 0, 2, 2, 3, 6, 4};
    CHECK(interpret(code) == 82); /* three times + 3, * 2 */
}

/* Threads. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed_turn = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static unsigned turn, total, spun, pair[2], initialised;
static atomic_uint destroyed, inside;

static void *take_turns(void *thread)
{
    for (unsigned n = 0; n < 20; n++) {
        pthread_mutex_lock(&mutex);
        while (turn % 4 != (uintptr_t)thread)
            pthread_cond_wait(&changed_turn, &mutex);
        turn++;
        pthread_cond_broadcast(&changed_turn);
        pthread_mutex_unlock(&mutex);
    }
    return (void *)((uintptr_t)thread + 1);
}

static void conditions(void)
{
    struct timespec past = {1, 0};
    turn = 0;
    run_threads(4, take_turns);
    CHECK(turn == 80);
    pthread_mutex_lock(&mutex);
    CHECK(pthread_cond_timedwait(&changed_turn, &mutex, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    pthread_mutexattr_t recursive;
    pthread_mutex_t twice;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&twice, &recursive);
    CHECK(pthread_mutex_lock(&twice) == 0 && pthread_mutex_lock(&twice) == 0);
    CHECK(pthread_mutex_unlock(&twice) == 0 && pthread_mutex_unlock(&twice) == 0);
    CHECK(pthread_mutex_destroy(&twice) == 0);
}

static void *meet(void *thread)
{
    unsigned leaders = 0;
    for (unsigned n = 0; n < 20; n++) {
        __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
        leaders += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        CHECK(__atomic_load_n(&total, __ATOMIC_RELAXED) == (n + 1) * 4);
        pthread_barrier_wait(&barrier);
    }
    CHECK(leaders <= 20);
    return (void *)((uintptr_t)thread + 1);
}

static void barriers(void)
{
    total = 0;
    CHECK(pthread_barrier_init(&barrier, NULL, 4) == 0);
    run_threads(4, meet);
    CHECK(total == 80 && pthread_barrier_destroy(&barrier) == 0);
}

static void *enter(void *thread)
{
    for (unsigned n = 0; n < 50; n++) {
        CHECK(sem_wait(&semaphore) == 0);
        CHECK(atomic_fetch_add(&inside, 1) < 2);
        atomic_fetch_sub(&inside, 1);
        CHECK(sem_post(&semaphore) == 0);
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
    }
    return (void *)((uintptr_t)thread + 1);
}

static void semaphores(void)
{
    int value = -1;
    spun = 0;
    CHECK(sem_init(&semaphore, 0, 2) == 0 && pthread_spin_init(&spin, 0) == 0);
    run_threads(4, enter);
    CHECK(sem_getvalue(&semaphore, &value) == 0 && value == 2 && spun == 200);
    CHECK(sem_trywait(&semaphore) == 0 && sem_trywait(&semaphore) == 0);
    CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN && sem_destroy(&semaphore) == 0);
}

static void *read_and_write(void *thread)
{
    for (unsigned n = 0; n < 50; n++) {
        if (n % 5 == 0) {
            pthread_rwlock_wrlock(&rwlock);
            pair[0]++;
            pair[1] += 2;
        } else {
            pthread_rwlock_rdlock(&rwlock);
            CHECK(pair[1] == 2 * pair[0]);
        }
        pthread_rwlock_unlock(&rwlock);
    }
    return (void *)((uintptr_t)thread + 1);
}

static void rwlocks(void)
{
    pair[0] = pair[1] = 0;
    run_threads(4, read_and_write);
    CHECK(pair[0] == 40 && pair[1] == 80);
    CHECK(pthread_rwlock_tryrdlock(&rwlock) == 0 && pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
}

static void destroy(void *value)
{
    atomic_fetch_add(&destroyed, (unsigned)*(int *)value);
    free(value);
}

static void initialise(void)
{
    initialised++;
    pthread_key_create(&key, destroy);
}

static void *use_key(void *thread)
{
    pthread_once(&once, initialise);
    CHECK(initialised == 1 && pthread_getspecific(key) == NULL);
    int *value = malloc(sizeof *value);
    *value = 1 + (int)(uintptr_t)thread;
    pthread_setspecific(key, value);
    CHECK(pthread_getspecific(key) == value);
    CHECK(pthread_equal(pthread_self(), pthread_self()));
    pthread_exit((void *)((uintptr_t)thread + 1));
}

static void *find_stack(void *unused)
{
    (void)unused;
    pthread_attr_t attributes;
    void *stack = NULL;
    size_t bytes = 0;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &stack, &bytes) == 0);
    CHECK((uintptr_t)&attributes - (uintptr_t)stack < bytes);
    pthread_attr_destroy(&attributes);
    return NULL;
}

static void bounds_of_stacks(void)
{
    pthread_t thread;
    find_stack(NULL);
    CHECK(pthread_create(&thread, NULL, find_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void keys(void)
{
    atomic_store(&destroyed, 0);
    run_threads(4, use_key);
    CHECK(atomic_load(&destroyed) == 10 && initialised == 1);
}

static void *add_detached(void *done)
{
    atomic_fetch_add((atomic_uint *)done, 1);
    return NULL;
}

static void detached(void)
{
    static atomic_uint done;
    pthread_attr_t attributes;
    pthread_t handle;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 256 << 10) == 0);
    for (unsigned n = 0; n < 20; n++) { /* more, one after the other, than there are cores */
        CHECK(pthread_create(&handle, &attributes, add_detached, &done) == 0);
        while (atomic_load(&done) == n)
            sched_yield();
    }
    pthread_attr_destroy(&attributes);
    CHECK(atomic_load(&done) == 20);
}

static void times(void)
{
    struct timespec a, b, nap = {0, 1000000};
    struct timeval day;
    struct tm parts;
    time_t moment = 86400 * 365;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &a) == 0);
    CHECK(nanosleep(&nap, NULL) == 0 && usleep(10) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &b) == 0);
    CHECK((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 1000000);
    CHECK(gettimeofday(&day, NULL) == 0 && time(NULL) >= 0 && clock() != (clock_t)-1);
    CHECK(gmtime_r(&moment, &parts) && parts.tm_year == 71 && parts.tm_yday == 0);
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    CHECK(poll(&output, 1, 0) == 1 && (output.revents & POLLNVAL) == 0);
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    uint64_t first = (uint64_t)high << 32 | low;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high));
    CHECK(((uint64_t)high << 32 | low) >= first);
}

static long early_cores;

/* Before main, when no thread of the program runs yet. */
__attribute__((constructor)) static void ask_early(void)
{
    early_cores = sysconf(_SC_NPROCESSORS_ONLN);
}

static void environment(void)
{
    CHECK(early_cores > 0);
    CHECK(setenv("FEATURES", "7", 1) == 0 && !strcmp(getenv("FEATURES"), "7"));
    CHECK(unsetenv("FEATURES") == 0 && !getenv("FEATURES") && getpid() > 0);
    CHECK(sysconf(_SC_PAGESIZE) == 4096 && sysconf(_SC_NPROCESSORS_ONLN) > 0);
    srand(3);
    int one = rand();
    srand(3);
    CHECK(rand() == one);
}

static const struct test {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"atomics_8", atomics_8},
    {"atomics_16", atomics_16},
    {"atomics_32", atomics_32},
    {"atomics_64", atomics_64},
    {"atomics_128", atomics_128},
    {"atomics_of_a_library", atomics_of_a_library},
    {"atomics_shared", atomics_shared},
    {"locked_instructions", locked_instructions},
    {"flushes", flushes},
    {"non_temporal", non_temporal},
    {"string_instructions", string_instructions},
    {"copies", copies},
    {"big_copy", big_copy},
    {"strings", strings},
    {"files", files},
    {"heap", heap},
    {"thread_local_storage", thread_local_storage},
    {"long_jumps", long_jumps},
    {"floating_point", floating_point},
    {"vectors", vectors},
    {"calls", calls},
    {"stacks", stacks},
    {"structs", structs},
    {"jumps", jumps},
    {"conditions", conditions},
    {"barriers", barriers},
    {"semaphores", semaphores},
    {"rwlocks", rwlocks},
    {"bounds of stacks", bounds_of_stacks},
    {"keys", keys},
    {"detached", detached},
    {"times", times},
    {"environment", environment},
};

int main(int count, char **words)
{
    int failed = 0, known = 0;
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++) {
        int wanted = count == 1;
        for (int w = 1; w < count; w++)
            wanted |= !strcmp(words[w], tests[n].name);
        if (!wanted)
            continue;
        known++;
        failures = 0;
        tests[n].run();
        printf("%s %s\n", tests[n].name, failures ? "failed" : "ok");
        failed |= failures != 0;
    }
    if (!known) {
        fprintf(stderr, "no such test\n");
        return 2;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
