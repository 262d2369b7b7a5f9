/* crowd.c: starts a thread. */
#include <pthread.h>

static void *work(void *nothing)
{
    return nothing;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0); /* starts */
    pthread_join(thread, 0);
    return 0;
}
