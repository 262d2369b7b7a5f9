/* Two copies in a row, neither of which is flushed; the pool has a mark that is. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *volatile pool;
static uint64_t from[] = {7, 7, 7, 7};

__attribute__((noinline)) static void copy(uint64_t *to, size_t bytes)
{
    memcpy(to, from, bytes);      /* first */
    memcpy(to + 16, from, bytes); /* second */
    to[8] = from[0];              /* after */
}

int main(int count, char **words)
{
    int file = open(words[2], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096) != 0)
        return 2;
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!strcmp(words[1], "check"))
        return pool[32] && !pool[3] && !pool[19];
    copy(pool, 8 * (size_t)(count + 1));
    pool[32] = 1;
    __asm__ volatile("clflush %0" : "+m"(pool[32]));
    return 0;
}
