/* Stores to its pool past the caches alone. */
#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    enum { WORDS = 512 };
    int fd = count > 1 ? open(words[1], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, WORDS * 8) != 0)
        return 2;
    long long *pool = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED)
        return 2;
    for (int n = 0; n < WORDS; n++)
        _mm_stream_si64(&pool[n], n + 1);
    _mm_sfence();
    return 0;
}
