/* A lock that is persistent, and that nothing releases after a crash: the check waits for it. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void persist(volatile uint64_t *word)
{
    __asm__ volatile("clflush %0" : "+m"(*word));
}

int main(int count, char **words)
{
    int file = open(words[2], O_RDWR | O_CREAT, 0600);
    if (count < 3 || ftruncate(file, 4096) != 0)
        return 2;
    volatile uint64_t *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!strcmp(words[1], "check")) {
        while (pool[0] == 1) /* waits */
            ;
        return 0;
    }
    pool[0] = 1; /* takes */
    persist(pool);
    for (int i = 0; i < 8; i++) {
        pool[8] = i + 1;
        persist(pool + 8);
    }
    pool[0] = 2;
    persist(pool);
    return 0;
}
