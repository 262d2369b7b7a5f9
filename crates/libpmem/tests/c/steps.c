/*
 * Steps through calls, instruction by instruction (x86-64), and prints of each call which of the
 * lines of its range were flushed or stored past the caches, and whether it fenced after that.
 */
#define _GNU_SOURCE
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES 256
#define FIRST 64 /* the line where ranges begin */

struct call {
	const char *name;
	size_t at, len;
	unsigned flags;
};

/* What a call did to the lines of the memory: bits. */
enum { FLUSHED = 1, PAST = 2 };

static char *memory;
static struct call calls[1000];
static int count;

static const char *plain[] = {"pmem_flush", "pmem_persist", "pmem_deep_flush", "pmem_drain"};
static const char *writes[] = {"pmem_memmove", "pmem_memset"};

static void add(const char *name, size_t at, size_t len, unsigned flags)
{
	calls[count++] = (struct call){name, at, len, flags};
}

static void list(unsigned places_max)
{
	const size_t places[] = {0, 1, 63, 40}, lens[] = {0, 1, 8, 63, 64, 65, 200, 700};
	const unsigned flags[] = {0, PMEM_F_MEM_NODRAIN, PMEM_F_MEM_NOFLUSH, PMEM_F_MEM_TEMPORAL,
		PMEM_F_MEM_NONTEMPORAL};
	for (unsigned p = 0; p < places_max; p++)
		for (unsigned l = 0; l < 8; l++) {
			/* Of no byte inside a line, Debian's flushes the line. */
			for (unsigned i = 0; (lens[l] || !places[p]) && i < 4; i++)
				add(plain[i], places[p], lens[l], 0);
			for (unsigned f = 0; f < 5; f++)
				for (unsigned i = 0; lens[l] && i < 2; i++)
					add(writes[i], places[p], lens[l], flags[f]);
		}
}

static void run(const struct call *call)
{
	static char source[8192];
	char *at = memory + FIRST * 64 + call->at;
	if (call->name == plain[0])
		pmem_flush(at, call->len);
	else if (call->name == plain[1])
		pmem_persist(at, call->len);
	else if (call->name == plain[2])
		pmem_deep_flush(at, call->len);
	else if (call->name == plain[3])
		pmem_drain();
	else if (call->name == writes[0])
		pmem_memmove(at, source + 3, call->len, call->flags);
	else
		pmem_memset(at, 7, call->len, call->flags);
}

/* The address in an operand that is memory: base, index and displacement. */
static uint64_t operand(const struct user_regs_struct *r, const uint8_t *modrm, unsigned rex,
	uint64_t end)
{
	const uint64_t all[] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15};
	unsigned mode = *modrm >> 6, base = *modrm & 7;
	uint64_t address = 0;
	const uint8_t *rest = modrm + 1;
	if (mode == 0 && base == 5)
		return end; /* beside the code: none of ours */
	if (base == 4) {
		unsigned index = (*rest >> 3 & 7) | (rex & 2) << 2;
		if (index != 4)
			address = all[index] << (*rest >> 6);
		base = *rest++ & 7;
	}
	address += all[base | (rex & 1) << 3];
	if (mode == 1)
		address += (int8_t)*rest;
	if (mode == 2) {
		int32_t by;
		memcpy(&by, rest, 4);
		address += by;
	}
	return address;
}

/* Notes what the instruction at which the child stands does. */
static void look(pid_t child, const struct user_regs_struct *r, uint8_t *lines, int *fenced)
{
	uint64_t words[2];
	words[0] = ptrace(PTRACE_PEEKTEXT, child, (void *)r->rip, NULL);
	words[1] = ptrace(PTRACE_PEEKTEXT, child, (void *)(r->rip + 8), NULL);
	const uint8_t *code = (const uint8_t *)words;
	int wide = *code == 0x66;
	code += wide;
	unsigned rex = (*code & 0xf0) == 0x40 ? *code++ : 0;
	if (*code++ != 0x0f)
		return;
	unsigned code_byte = *code++, extension = *code >> 3 & 7, to_memory = *code >> 6 != 3;
	if (code_byte == 0xae && !to_memory && (extension == 7 || extension == 6)) {
		*fenced = 1;
		return;
	}
	int flush = code_byte == 0xae && (extension == 7 || (wide && extension == 6));
	int past = (code_byte == 0xe7 && wide) || code_byte == 0xc3;
	if (!to_memory || !(flush || past))
		return;
	uint64_t address = operand(r, code, rex, 0);
	uint64_t line = (address - (uint64_t)memory) / 64;
	if (address >= (uint64_t)memory && line < LINES) {
		lines[line] |= flush ? FLUSHED : PAST;
		*fenced = 0;
	}
}

static void show(const struct call *call, const uint8_t *lines, int fenced)
{
	size_t first = FIRST + call->at / 64, end = FIRST + (call->at + call->len + 63) / 64;
	unsigned safe = 0, outside = 0;
	if (call->name == plain[3] || call->len == 0)
		end = first;
	for (size_t line = 0; line < LINES; line++)
		if (lines[line] && line >= first && line < end)
			safe++;
		else if (lines[line])
			outside++;
	printf("%s of %zu at %zu", call->name, call->len, call->at);
	if (call->flags)
		printf(", flags %u", call->flags);
	printf(": flushed %s%s, %s\n", safe == 0 ? "none" : safe == end - first ? "all" : "some",
		safe && !outside ? " and only" : outside ? " and others" : "",
		fenced ? "fenced" : "not fenced");
}

static int stopped_at(pid_t child, struct user_regs_struct *registers)
{
	int status;
	waitpid(child, &status, 0);
	if (!WIFSTOPPED(status))
		return 0;
	return ptrace(PTRACE_GETREGS, child, NULL, registers) == 0;
}

static void step_through(pid_t child, const struct call *call)
{
	struct user_regs_struct registers;
	uint8_t lines[LINES] = {0};
	int fenced = 0;
	if (ptrace(PTRACE_GETREGS, child, NULL, &registers))
		exit(4);
	for (;;) {
		long word = ptrace(PTRACE_PEEKTEXT, child, (void *)registers.rip, NULL);
		if ((word & 0xff) == 0xcc)
			break;
		look(child, &registers, lines, &fenced);
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		if (!stopped_at(child, &registers))
			exit(5);
	}
	show(call, lines, fenced);
	/* Over the second breakpoint, and to the first of the next call. */
	ptrace(PTRACE_CONT, child, NULL, NULL);
	if (!stopped_at(child, &registers))
		exit(6);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	stopped_at(child, &registers);
}

int main(int arguments, char **argument)
{
	(void)argument;
#ifdef __x86_64__
	memory = mmap(NULL, LINES * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	list(arguments > 1 ? 2 : 4);
	pid_t child = fork();
	if (child == 0) {
		/* All symbols are bound, and all is set up, before it begins. */
		for (int i = 0; i < count; i++)
			run(&calls[i]);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(9);
		for (int i = 0; i < count; i++) {
			__asm__ volatile("int3" ::: "memory");
			run(&calls[i]);
			__asm__ volatile("int3" ::: "memory");
		}
		_exit(0);
	}
	/* Stops at the first breakpoint, or ends because it may not be traced. */
	struct user_regs_struct registers;
	if (!stopped_at(child, &registers)) {
		printf("skipped: this process may not trace another\n");
		return 0;
	}
	for (int i = 0; i < count; i++)
		step_through(child, &calls[i]);
#else
	printf("skipped: it reads the instructions of x86-64\n");
#endif
	return 0;
}
