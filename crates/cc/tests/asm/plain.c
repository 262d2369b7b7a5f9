/* Ordinary C of many kinds; what it prints must not depend on whether it is instrumented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *next; int key; char name[12]; };
struct wide { double values[9]; long tag; };
typedef float vector __attribute__((vector_size(32)));

static __thread int depth = 3;
static jmp_buf escape;
static volatile long sink;

static int compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static struct wide by_value(struct wide in, int n) {
    for (int i = 0; i < 9; i++) in.values[i] = in.values[i] * n + i;
    in.tag += n;
    return in;
}

static long total(int count, ...) {
    va_list list;
    va_start(list, count);
    double floats = 0;
    long sum = 0;
    for (int i = 0; i < count; i++) i % 2 ? (floats += va_arg(list, double)) : (sum += va_arg(list, int));
    va_end(list);
    return sum + (long)floats;
}

static long many(long a, int b, long c, short d, long e, char f, long g, long h, double i, long j) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + (long)(9 * i) + 10 * j;
}

static unsigned sum_variable(int n) {
    unsigned cells[n], sum = 0;
    for (int i = 0; i < n; i++) cells[i] = (unsigned)(i * i);
    for (int i = 0; i < n; i++) sum = sum * 31 + cells[i];
    return sum;
}

static void descend(int n) {
    char block[200];
    memset(block, n, sizeof block);
    sink += block[n % 200];
    if (n == 0) longjmp(escape, 7);
    descend(n - 1);
}

static long labels(const char *code) {
    static const void *const table[] = {&&up, &&down, &&twice, &&end};
    long value = 0;
    goto *table[*code++ - '0'];
up:
    value += 5;
    goto *table[*code++ - '0'];
down:
    value -= 2;
    goto *table[*code++ - '0'];
twice:
    value *= 2;
    goto *table[*code++ - '0'];
end:
    return value;
}

static __int128 power(__int128 base, int n) {
    __int128 result = 1;
    while (n-- > 0) result = result * base + n;
    return result;
}

__attribute__((noinline)) static double mixed(float a, double b, long double c, int n) {
    for (int i = 0; i < n; i++) {
        c = c / 1.5L + a * b;
        a = (float)(b > 3 ? c : a + 1);
        b += a > b ? 0.25 : -0.5;
    }
    return (double)c + a + b;
}

static void lists(void) {
    struct node *head = NULL;
    for (int i = 0; i < 20; i++) {
        struct node *node = malloc(sizeof *node);
        *node = (struct node){head, i * 7 % 11, ""};
        snprintf(node->name, sizeof node->name, "n%d", i);
        head = node;
    }
    unsigned hash = 5381;
    while (head) {
        for (const char *c = head->name; *c; c++) hash = hash * 33 ^ (unsigned char)*c;
        hash += (unsigned)head->key;
        struct node *next = head->next;
        free(head);
        head = next;
    }
    printf("lists %u\n", hash);
}

static void arrays(void) {
    int values[64];
    short narrow[64];
    unsigned char bytes[64];
    double reals[64];
    for (int i = 0; i < 64; i++) values[i] = i * 7919 % 257, narrow[i] = (short)(i * 31), bytes[i] = (unsigned char)(i * 5);
    qsort(values, 64, sizeof *values, compare);
    for (int i = 0; i < 64; i++) reals[i] = values[i] / 3.0 + narrow[63 - i] * (bytes[i] & 15);
    long sum = 0;
    double real = 0;
    for (int i = 0; i < 64; i++) sum += (long)values[i] * narrow[i] - bytes[i], real = real / 2 + reals[i];
    vector v = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 10; i++) v = v * 1.5f + (vector){1, 0, 1, 0, 1, 0, 1, 0};
    printf("arrays %ld %.6f %.3f %.3f\n", sum, real, (double)v[0], (double)v[7]);
}

/* Compilers gather and scatter here, under masks that keep them off bad indices. */
__attribute__((noinline)) static void indexed(int *restrict to, const int *restrict index,
                                              const int *restrict from, double *restrict reals,
                                              const long *restrict wide, int n) {
    for (int i = 0; i < n; i++) to[i] = from[index[i]];
    for (int i = 0; i < n; i++) to[index[i]] = from[i] + 1;
    for (int i = 0; i < n; i++) reals[i] += wide[i] < n ? (double)from[wide[i]] : 0.5;
    for (int i = 0; i < n; i++) if (wide[i] < n) reals[wide[i]] = i;
}

static void indices(void) {
    int to[50], index[50], from[50];
    double reals[50];
    long wide[50], sum = 0;
    for (int i = 0; i < 50; i++) {
        to[i] = -1, index[i] = i * 7 % 50, from[i] = i * i, reals[i] = i / 2.0;
        wide[i] = i % 3 ? i * 11 % 50 : 1l << 50;
    }
    indexed(to, index, from, reals, wide, 50);
    double real = 0;
    for (int i = 0; i < 50; i++) sum = sum * 3 + to[i], real = real * 0.9 + reals[i];
    printf("indices %ld %.6f\n", sum, real);
}

static void atomics(void) {
    static long cell = 5;
    static unsigned __int128 pair;
    long seen = __atomic_fetch_add(&cell, 3, __ATOMIC_SEQ_CST);
    seen += __atomic_exchange_n(&cell, 40, __ATOMIC_ACQ_REL);
    long expected = 40;
    int won = __atomic_compare_exchange_n(&cell, &expected, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    won += __sync_bool_compare_and_swap(&cell, 1, 9);
    __atomic_or_fetch(&cell, 8, __ATOMIC_SEQ_CST);
    int bit = __atomic_fetch_or(&cell, 64, __ATOMIC_SEQ_CST) >> 6 & 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pair += (unsigned __int128)cell << 60;
    printf("atomics %ld %ld %d %d %lu\n", cell, seen, won, bit, (unsigned long)(pair >> 32));
}

int main(void) {
    struct wide wide = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, 100};
    for (int i = 1; i < 5; i++) wide = by_value(wide, i);
    printf("wide %.3f %ld\n", wide.values[4], wide.tag);
    printf("varargs %ld many %ld\n", total(6, 1, 2.5, 3, 4.5, 5, 6.5), many(1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10));
    printf("vla %u labels %ld\n", sum_variable(33) + sum_variable(5), labels("0020102023"));
    __int128 large = power(-1234567, 9);
    printf("power %lx %lx\n", (unsigned long)(large >> 64), (unsigned long)large);
    printf("mixed %.9f\n", mixed(1.5f, 2.5, 3.5L, 40));
    int jumped = setjmp(escape);
    if (jumped == 0) descend(30);
    printf("setjmp %d %ld thread %d\n", jumped, sink, depth++ + depth);
    lists();
    arrays();
    indices();
    atomics();
    char text[80] = "the quick brown fox";
    printf("strings %zu %d %s\n", strlen(text), strcmp(text, "the quiet"), strcat(text, " jumps"));
    return 0;
}
