/* prints.c: prints its pool and a sum, which is the same everywhere, or another one on a machine of
 * seawall.
 *
 *     prints POOL same|other */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Only a machine of seawall has it. */
void seawall_output(uint64_t number) __attribute__((weak));

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    int differs = strcmp(words[2], "other") == 0 && seawall_output;
    printf("in %s\nsum %d\nend\n", words[1], differs ? 43 : 42);
    return 0;
}
