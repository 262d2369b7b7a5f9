/*
 * Counts libpmemobj's calls of libpmem: a library to be preloaded, so that the process that
 * measures time runs libpmem itself. A function that both flushes and waits counts as both; a line
 * written past the caches counts as a flushed one. Calls between libpmem's functions are not
 * counted again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libpmem.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static atomic_uint_fast64_t fences;
static atomic_uint_fast64_t lines;
static _Thread_local int depth;

/* Returns both counts since the process began. */
void
counting_read(uint64_t *fences_now, uint64_t *lines_now)
{
	*fences_now = atomic_load(&fences);
	*lines_now = atomic_load(&lines);
}

static void
count_flush(const void *at, size_t bytes)
{
	uintptr_t first = (uintptr_t)at / 64;
	if (bytes > 0 && depth == 0)
		atomic_fetch_add(&lines, ((uintptr_t)at + bytes - 1) / 64 - first + 1);
}

static void
count_fence(void)
{
	if (depth == 0)
		atomic_fetch_add(&fences, 1);
}

static void
count_copy(const void *at, size_t bytes, unsigned flags)
{
	if (flags & PMEM_F_MEM_NOFLUSH)
		return;
	count_flush(at, bytes);
	if (!(flags & PMEM_F_MEM_NODRAIN))
		count_fence();
}

#define REAL(name) \
	static __typeof__(name) *real; \
	if (real == NULL) \
		real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

void
pmem_flush(const void *at, size_t bytes)
{
	REAL(pmem_flush);
	count_flush(at, bytes);
	depth++;
	real(at, bytes);
	depth--;
}

void
pmem_deep_flush(const void *at, size_t bytes)
{
	REAL(pmem_deep_flush);
	count_flush(at, bytes);
	depth++;
	real(at, bytes);
	depth--;
}

void
pmem_drain(void)
{
	REAL(pmem_drain);
	count_fence();
	depth++;
	real();
	depth--;
}

void
pmem_persist(const void *at, size_t bytes)
{
	REAL(pmem_persist);
	count_flush(at, bytes);
	count_fence();
	depth++;
	real(at, bytes);
	depth--;
}

void *
pmem_memcpy(void *to, const void *from, size_t bytes, unsigned flags)
{
	REAL(pmem_memcpy);
	count_copy(to, bytes, flags);
	depth++;
	void *given = real(to, from, bytes, flags);
	depth--;
	return given;
}

void *
pmem_memmove(void *to, const void *from, size_t bytes, unsigned flags)
{
	REAL(pmem_memmove);
	count_copy(to, bytes, flags);
	depth++;
	void *given = real(to, from, bytes, flags);
	depth--;
	return given;
}

void *
pmem_memset(void *to, int byte, size_t bytes, unsigned flags)
{
	REAL(pmem_memset);
	count_copy(to, bytes, flags);
	depth++;
	void *given = real(to, byte, bytes, flags);
	depth--;
	return given;
}
