/* Each way to copy and to fill, held to memmove and memset; prints sums of what is there. */
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (8 << 20)

static char *memory;
static char *expected;
static unsigned long calls, wrong;
static uint64_t sum = 14695981039346656037UL;
static uint32_t seed = 1;

static uint32_t next(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

static void check(const char *what, void *answer, size_t to, size_t len)
{
	size_t from = to < 128 ? 0 : to - 128;
	size_t end = to + len + 128 > BYTES ? BYTES : to + len + 128;
	calls++;
	if (answer != memory + to || memcmp(memory + from, expected + from, end - from)) {
		if (wrong++ == 0)
			printf("%s of %zu at %zu\n", what, len, to);
		memcpy(expected, memory, BYTES);
	}
	for (size_t i = from; i < end; i += 1 + len / 64)
		sum = (sum ^ (uint8_t)memory[i]) * 1099511628211UL;
}

static void refill(size_t at, size_t len)
{
	for (size_t i = at; i < at + len && i < BYTES; i++)
		memory[i] = expected[i] = (char)next();
}

static const unsigned flags[] = {
	0, PMEM_F_MEM_NODRAIN, PMEM_F_MEM_NONTEMPORAL, PMEM_F_MEM_TEMPORAL, PMEM_F_MEM_WC,
	PMEM_F_MEM_WB, PMEM_F_MEM_NOFLUSH, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN,
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

static void copy(size_t to, size_t from, size_t len, unsigned way)
{
	void *answer;
	memmove(expected + to, expected + from, len);
	if (way < FLAGS)
		answer = pmem_memmove(memory + to, memory + from, len, flags[way]);
	else if (way == FLAGS)
		answer = pmem_memmove_persist(memory + to, memory + from, len);
	else
		answer = pmem_memmove_nodrain(memory + to, memory + from, len);
	check("memmove", answer, to, len);
}

static void copy_apart(size_t to, size_t from, size_t len, unsigned way)
{
	void *answer;
	memcpy(expected + to, expected + from, len);
	if (way < FLAGS)
		answer = pmem_memcpy(memory + to, memory + from, len, flags[way]);
	else if (way == FLAGS)
		answer = pmem_memcpy_persist(memory + to, memory + from, len);
	else
		answer = pmem_memcpy_nodrain(memory + to, memory + from, len);
	check("memcpy", answer, to, len);
}

static void fill(size_t to, size_t len, unsigned way)
{
	void *answer;
	int byte = (int)next() - 1000;
	memset(expected + to, byte, len);
	if (way < FLAGS)
		answer = pmem_memset(memory + to, byte, len, flags[way]);
	else if (way == FLAGS)
		answer = pmem_memset_persist(memory + to, byte, len);
	else
		answer = pmem_memset_nodrain(memory + to, byte, len);
	check("memset", answer, to, len);
}

static void all_lengths(size_t len_max)
{
	for (size_t len = 0; len <= len_max; len++)
		for (unsigned way = 0; way < FLAGS + 2; way++) {
			size_t to = 1024 + (len * 7 + way * 13) % 70;
			size_t from = 1024 + (len * 11 + way * 5) % 70;
			refill(960, 600);
			copy(to, from, len, way);
			refill(960, 600);
			copy(from, to, len, way);
			copy_apart(to, 4096 + from, len, way);
			fill(to, len, way);
		}
}

static void distances(void)
{
	for (int distance = -130; distance <= 130; distance += 3)
		for (size_t len = 1; len < 700; len += 37) {
			refill(900, 1000);
			copy(1030 + distance, 1030, len, len % (FLAGS + 2));
		}
}

static void large(void)
{
	const size_t all[] = {1000, 4095, 4096, 65535, 65536, 65537, 100001, (1 << 20) + 8, 3 << 20};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (unsigned way = 0; way < FLAGS + 2; way++) {
			size_t from = next() % 8192, to = next() % 8192;
			refill(from, all[i]);
			copy(to, from, all[i], way);
			copy(to + 77, to, all[i], way);
			copy_apart((4 << 20) + to, from, all[i], way);
			fill(to, all[i], way);
		}
}

int main(int count, char **arguments)
{
	(void)arguments;
	memory = pmem_map_file(".", BYTES, PMEM_FILE_CREATE | PMEM_FILE_TMPFILE, 0, NULL, NULL);
	expected = calloc(1, BYTES);
	if (memory == NULL || expected == NULL)
		return 2;
	refill(0, 65536);
	all_lengths(count > 1 ? 20 : 300);
	if (count == 1) {
		distances();
		large();
	}
	printf("%lu calls, sum %016lx\nwrong: %lu\n", calls, (unsigned long)sum, wrong);
	return 0;
}
