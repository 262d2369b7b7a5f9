/* Stores to each word of 1024 lines, plain or past the caches: past KIND POOL */
#include <emmintrin.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    enum { BYTES = 65536 };
    int fd = count > 2 ? open(words[2], O_RDWR | O_CREAT, 0644) : -1;
    if (fd < 0 || ftruncate(fd, BYTES) != 0)
        return 2;
    char *pool = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED)
        return 2;
    int is_plain = strcmp(words[1], "plain") == 0;
    for (int at = 0; at < BYTES; at += 8) {
        if (is_plain)
            *(volatile long long *)(pool + at) = at;
        else
            _mm_stream_si64((long long *)(pool + at), at);
    }
    _mm_sfence();
    return 0;
}
