/* unseen.c: the C library stores to persistent memory where nothing sees it.
 *
 *     unseen run POOL      unseen check POOL */
#include <fcntl.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    int file = count < 3 ? -1 : open(words[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    double *whole = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (whole == MAP_FAILED)
        return 2;
    if (strcmp(words[1], "check") == 0)
        return 0;
    volatile double number = 2.5;
    double rest = modf(number, whole);
    _mm_clflush(whole); /* finds it */
    return rest != 0.5;
}
