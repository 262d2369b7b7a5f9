/* Stores two words to a mapping, the second after the first; recovery reads them with pread:
 *
 *   reading run POOL 1 FLAW
 *   reading check POOL
 *
 * Flaw 1: nothing makes the first word durable before the second. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 8192
#define APART 64

int main(int count, char **words)
{
    if (count < 3)
        return 64;
    int file = open(words[2], O_RDWR | O_CREAT, 0600);
    if (strcmp(words[1], "check") == 0) {
        volatile uint64_t first = 0, second = 0;
        pread(file, (void *)&second, sizeof second, APART * sizeof second);
        lseek(file, 0, SEEK_SET);
        read(file, (void *)&first, sizeof first);
        return second == 1 && first != 1;
    }
    if (count < 5 || ftruncate(file, BYTES) != 0)
        return 64;
    volatile uint64_t *pool = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pool[0] = 1;
    if (atoi(words[4]) != 1)
        fsync(file);
    pool[APART] = 1; /* the second */
    fdatasync(file);
    return 0;
}
