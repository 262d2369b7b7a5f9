/* What a program may say with `seawall.h`. */
#include "support.h"

void seawall_begin(void)
{
    sw_roi(1);
}

void seawall_end(void)
{
    sw_roi(0);
}

void seawall_output(uint64_t number)
{
    sw_output(number);
}

void seawall_order(void)
{
    sw_order();
}

void seawall_drain(void)
{
    sw_drain();
}

void seawall_persistent(const void *at, size_t bytes)
{
    sw_persistent(at, bytes);
}
