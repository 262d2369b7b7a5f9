/* note.c: a note is copied with libpmem, without a drain, and then counted.
 *
 *     note run POOL        note check POOL */
#include <libpmem.h>
#include <string.h>

struct pool {
    unsigned long count, unused[7];
    char text[64];
};

static const char words[64] = "a note of forty-odd letters that is copied";

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    struct pool *pool = pmem_map_file(arguments[2], 4096, PMEM_FILE_CREATE, 0644, 0, 0);
    if (arguments[1][0] == 'c')
        return pool->count != 0 && strcmp(pool->text, words) != 0;
    pmem_memcpy(pool->text, words, sizeof words, PMEM_F_MEM_NODRAIN); /* copies */
    pool->count = 1;
    pmem_persist(&pool->count, sizeof pool->count);
    return 0;
}
