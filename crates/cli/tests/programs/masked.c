/* masked.c: stores to a mapped file of bytes and elements that a mask selects, and scatters.
 *
 *     masked POOL
 *
 * Uses what the processor has; every line that it stores to is flushed, so that a store that was
 * not seen is found. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 4096

static void flush(const char *at)
{
    for (int n = 0; n < BYTES; n += 64)
        _mm_clflush(at + n);
    _mm_sfence();
}

__attribute__((target("avx2"))) static void with_avx2(int *at)
{
    __m256i odd = _mm256_set_epi32(-1, 0, -1, 0, -1, 0, -1, 0);
    _mm256_maskstore_epi32(at, odd, _mm256_set1_epi32(5));
}

__attribute__((target("avx512f,avx512bw"))) static void with_avx512(int *at)
{
    __m512i steps = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_mask_storeu_epi32(at, 0x1ff0, steps);
    _mm512_mask_storeu_epi8(at + 16, 0xf00f, steps);
    _mm512_mask_compressstoreu_epi32(at + 48, 0x5151, steps);
    _mm512_i32scatter_epi32(at + 64, steps, steps, 8);
    _mm512_mask_i32scatter_epi32(at + 128, 0x5555, steps, steps, 4);
}

int main(int count, char **words)
{
    int file = count == 2 ? open(words[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, BYTES) != 0) {
        fprintf(stderr, "usage: masked POOL\n");
        return 2;
    }
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        return 2;
    _mm_maskmoveu_si128(_mm_set1_epi8(3), _mm_set_epi32(-1, 0x80, 0, 1 << 31), at + 8);
    if (__builtin_cpu_supports("avx2"))
        with_avx2((int *)(at + 64));
    if (__builtin_cpu_supports("avx512bw"))
        with_avx512((int *)(at + 1024));
    flush(at);
    return 0;
}
