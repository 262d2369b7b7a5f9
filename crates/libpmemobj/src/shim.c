/* What libpmemobj's interface has that cannot be said in Rust: the variable of each thread that the
 * header files keep the last pool in, and the beginning of a transaction, which takes any number of
 * arguments. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct _pobj_pcache {
	void *pop;
	uint64_t uuid_lo;
	int invalidate;
};

__thread struct _pobj_pcache _pobj_cached_pool;

static __thread size_t thread_number __attribute__((tls_model("initial-exec")));
static __thread void *thread_tx __attribute__((tls_model("initial-exec")));

/* The number of this thread plus 1, or 0. */
size_t *seawall_thread_number(void)
{
	return &thread_number;
}

/* The transaction of this thread, or NULL. */
void **seawall_thread_tx(void)
{
	return &thread_tx;
}

enum { NONE, MUTEX, RWLOCK, CALLBACK };

struct parameter {
	int kind;
	void *first;
	void *second;
};

/* More locks than any transaction takes at its beginning. */
#define PARAMETERS_MAX 64

int seawall_tx_begin(void *pop, const void *jump, size_t bytes, const struct parameter *parameters,
	size_t count);

int pmemobj_tx_begin(void *pop, jmp_buf jump, ...)
{
	struct parameter parameters[PARAMETERS_MAX];
	size_t count = 0;
	va_list arguments;
	va_start(arguments, jump);
	for (int kind; (kind = va_arg(arguments, int)) != NONE && count < PARAMETERS_MAX; count++) {
		parameters[count].kind = kind;
		parameters[count].first = va_arg(arguments, void *);
		parameters[count].second = kind == CALLBACK ? va_arg(arguments, void *) : NULL;
	}
	va_end(arguments);
	return seawall_tx_begin(pop, jump, sizeof(jmp_buf), parameters, count);
}
