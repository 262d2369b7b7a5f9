/* What a program may say with `seawall.h`, and where the code of this library is: what happens there
 * is told as its caller's. */
#include "support.h"

extern const char __start_seawall_support[] __attribute__((weak, visibility("hidden")));
extern const char __stop_seawall_support[] __attribute__((weak, visibility("hidden")));

const char *const seawall_support_code[2] = {__start_seawall_support, __stop_seawall_support};

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
