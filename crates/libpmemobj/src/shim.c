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

int seawall_tx_begin(void *pop, const void *jump, size_t bytes, const struct parameter *parameters,
	size_t count);

/* Reads the arguments up to TX_PARAM_NONE, into `into` if there is one; gives their number. */
static size_t read_parameters(va_list arguments, struct parameter *into)
{
	size_t count = 0;
	for (int kind; (kind = va_arg(arguments, int)) != NONE; count++) {
		void *first = va_arg(arguments, void *);
		void *second = kind == CALLBACK ? va_arg(arguments, void *) : NULL;
		if (into != NULL)
			into[count] = (struct parameter){kind, first, second};
	}
	return count;
}

int pmemobj_tx_begin(void *pop, jmp_buf jump, ...)
{
	va_list arguments, again;
	va_start(arguments, jump);
	va_copy(again, arguments);
	size_t count = read_parameters(arguments, NULL);
	if (count == 0) { /* Most transactions. */
		va_end(again);
		va_end(arguments);
		return seawall_tx_begin(pop, jump, sizeof(jmp_buf), NULL, 0);
	}
	struct parameter parameters[count];
	read_parameters(again, parameters);
	va_end(again);
	va_end(arguments);
	return seawall_tx_begin(pop, jump, sizeof(jmp_buf), parameters, count);
}
