/* Each thread fills a page of its own again and again, or copies within it (COPIES):
   private POOL THREADS ROUNDS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static char *p; static long rounds;
__attribute__((noinline)) static void *work(void *a)
{
  volatile uint32_t *mine = (uint32_t *)(p + 4096 * (long)a);
  long n = rounds;
#ifdef COPIES
  struct four { uint64_t words[4]; } *all = (struct four *)mine;
  for (long i = 0; i < n; i++) {
    all[i * 2 % 64] = all[64];
    __asm__ volatile("" ::: "memory");
  }
#else
  for (long i = 0; i < n; i++) mine[i * 16 % 1024] += 3;
#endif
  return 0;
}
int main(int n, char **v)
{
  int fd = open(v[1], O_RDWR | O_CREAT, 0644); (void)n;
  long threads = atol(v[2]); rounds = atol(v[3]);
  if (ftruncate(fd, 64 * 4096)) return 3;
  p = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  pthread_t th[64];
  for (long t = 0; t < threads; t++) pthread_create(&th[t], 0, work, (void *)t);
  for (long t = 0; t < threads; t++) pthread_join(th[t], 0);
  return 0;
}
