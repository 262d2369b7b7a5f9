/* Kernels whose instructions are counted: sorting, hashing, a matrix, a switch, recursion. */
#include <string.h>

#define K __attribute__((section("stepped"), noinline))

static long table[64];
static double left[8][8], right[8][8], product[8][8];

K static unsigned long next(unsigned long *state) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return *state >> 33;
}

K static void sort(int *values, int count) {
    for (int i = 1; i < count; i++) {
        int value = values[i], j = i;
        for (; j > 0 && values[j - 1] > value; j--) values[j] = values[j - 1];
        values[j] = value;
    }
}

K static void insert(long key) {
    unsigned long slot = (unsigned long)key * 0x9e3779b97f4a7c15ul >> 58;
    while (table[slot] != 0 && table[slot] != key) slot = (slot + 1) % 64;
    table[slot] = key;
}

K static double multiply(void) {
    double sum = 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            product[i][j] = 0;
            for (int k = 0; k < 8; k++) product[i][j] += left[i][k] * right[k][j];
            sum += product[i][j];
        }
    return sum;
}

K static long interpret(const unsigned char *code, int length) {
    long value = 1;
    for (int at = 0; at < length; at++)
        switch (code[at] % 7) {
        case 0: value += 3; break;
        case 1: value *= 5; break;
        case 2: value ^= value >> 7; break;
        case 3: value -= at; break;
        case 4: value = value < 0 ? -value : value; break;
        case 5: value |= 1; break;
        default: value ^= 0x55; break;
        }
    return value;
}

K static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

K unsigned long kernel(void) {
    unsigned long state = 1;
    int values[40];
    unsigned char code[100];
    memset(table, 0, sizeof table);
    for (int i = 0; i < 40; i++) values[i] = (int)(next(&state) % 1000);
    sort(values, 40);
    for (int i = 0; i < 40; i++) insert(values[i] + 1);
    for (int i = 0; i < 64; i++) left[i / 8][i % 8] = i, right[i / 8][i % 8] = 64 - i;
    for (int i = 0; i < 100; i++) code[i] = (unsigned char)next(&state);
    return (unsigned long)values[7] + (unsigned long)multiply() + (unsigned long)interpret(code, 100)
        + (unsigned long)fibonacci(12) + (unsigned long)table[9];
}
