/* A table that grows when it is full, by functions that a short run does not come to.
   `grows run POOL COUNT | grows check POOL`. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 4, MOST = 32 };

static struct {
  uint64_t room, count, mark[6], entry[MOST];
} *table;

static inline __attribute__((always_inline)) void flushed(void *at)
{
  _mm_clwb(at);
}

static __attribute__((noinline)) void persist(void *at)
{
  flushed(at);
  _mm_sfence();
}

static __attribute__((noinline)) void grow(void)
{
  table->room *= 2;
  persist(table); /* grows */
}

/* Inlined, as what it calls is. */
static inline __attribute__((always_inline)) void mark_full(void)
{
  table->mark[0] = 1;
  flushed(table); /* marks */
  _mm_sfence();
}

/* Only a crash has it run. */
static __attribute__((noinline)) void repair(void)
{
  if (table->count && !table->entry[table->count - 1]) table->count--;
  persist(table);
}

/* Has nothing to do with what is durable. */
static __attribute__((noinline)) int explain(void)
{
  return write(2, "it is used wrong\n", 17) < 0;
}

static void add(uint64_t value)
{
  if (table->count == table->room) grow();
  if (table->count == 2 * ROOM) mark_full();
  table->entry[table->count] = value;
  persist(&table->entry[table->count]);
  table->count++;
  persist(table);
}

int main(int count, char **words)
{
  if (count < 3) return explain();
  int file = open(words[2], O_RDWR | O_CREAT, 0644);
  if (ftruncate(file, 4096)) return 2;
  table = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!strcmp(words[1], "check")) {
    if (table->count && table->count < 2) repair();
    for (uint64_t at = 0; at < table->count; at++)
      if (table->entry[at] != at + 1) return 1;
    return 0;
  }
  if (!table->room) {
    table->room = ROOM;
    persist(table);
  }
  for (int more = atoi(words[3]); more > 0; more--) add(table->count + 1);
  return 0;
}
