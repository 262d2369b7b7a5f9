/* So many pauses, or sines, or neither. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    double sum = 0;
    for (int n = 0; n < 1000; n++) {
        if (strcmp(what, "pause") == 0)
            __builtin_ia32_pause();
        else if (strcmp(what, "sine") == 0)
            sum += sin(n);
    }
    return sum > 1e9;
}
