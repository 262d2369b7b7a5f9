/* Words that are stored and flushed by helpers, which have many callers: what is said of a helper's
   line says who called it. `helpers run POOL [broken] | helpers check POOL`. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HELPER __attribute__((noinline, noclone))
/* So that the call before it is none that the compiler makes a jump. */
#define STAYS __asm__ volatile("" ::: "memory")

static uint64_t *words;

HELPER static void put(uint64_t *at, uint64_t value)
{
  *at = value; /* stores */
}

HELPER static void persist(void *at)
{
  _mm_clwb(at); /* flushes */
  _mm_sfence();
}

static inline __attribute__((always_inline)) void again(void *at)
{
  _mm_clwb(at); /* inlined */
}

HELPER static void direct(void)
{
  persist(words); /* direct */
  STAYS;
}

/* Leaves return addresses on the stack below it. */
HELPER static int leaves(int depth)
{
  volatile int sum = depth;
  if (depth > 0) {
    sum += leaves(depth - 1);
    direct();
  }
  return sum;
}

/* Its frame is found by the frame pointer, and holds what others have left there. */
HELPER static void framed(int bytes)
{
  volatile char *room = __builtin_alloca(bytes);
  room[0] = 1;
  persist(words); /* framed */
  STAYS;
}

HELPER static void down(int depth)
{
  if (depth > 0) down(depth - 1);
  persist(words); /* recursive */
  STAYS;
}

int main(int count, char **arguments)
{
  void (*volatile by)(void *) = persist;
  int file = open(arguments[2], O_RDWR | O_CREAT, 0644);
  if (ftruncate(file, 4096)) return 2;
  words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!strcmp(arguments[1], "check")) return words[8] && !words[0];
  put(&words[0], 1); /* first word */
  if (count == 3) persist(words);
  put(&words[8], 2); /* second word */
  persist(&words[8]);
  leaves(3);
  direct(); /* once */
  direct(); /* twice */
  by(words); /* pointer */
  framed(100 * count); /* deep frame */
  down(4); /* deep */
  again(words); /* one line */
  again(words); /* other line */
  _mm_sfence();
  return 0;
}
