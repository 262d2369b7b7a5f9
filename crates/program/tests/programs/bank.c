/* bank.c: transfers between accounts with a lock each, while an auditor takes all locks and sums.
 * Without persistence.
 *
 *     bank [-pTHREADS] [-nTRANSFERS]        transfers a thread */
#include "kernel.h"

#define ACCOUNTS 32
#define START 1000

static struct {
    pthread_mutex_t lock;
    long balance;
} accounts[ACCOUNTS];

static unsigned finished, audits;
static pthread_mutex_t finished_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_finished = PTHREAD_COND_INITIALIZER;

static void audit(void)
{
    long sum = 0;
    for (unsigned a = 0; a < ACCOUNTS; a++)
        pthread_mutex_lock(&accounts[a].lock);
    for (unsigned a = 0; a < ACCOUNTS; a++)
        sum += accounts[a].balance;
    audits++;
    for (unsigned a = 0; a < ACCOUNTS; a++)
        pthread_mutex_unlock(&accounts[a].lock);
    if (sum != (long)ACCOUNTS * START)
        kernel_fail("the sum is %ld", sum);
}

static void transfer(uint64_t random)
{
    unsigned from = random % ACCOUNTS, to = (from + 1 + (random >> 16) % (ACCOUNTS - 1)) % ACCOUNTS;
    unsigned low = from < to ? from : to, high = from < to ? to : from;
    long amount = (long)(random >> 32 & 63);
    pthread_mutex_lock(&accounts[low].lock);
    pthread_mutex_lock(&accounts[high].lock);
    accounts[from].balance -= amount;
    accounts[to].balance += amount;
    pthread_mutex_unlock(&accounts[high].lock);
    pthread_mutex_unlock(&accounts[low].lock);
}

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument;
    uint64_t random = 88172645463325252u + thread;
    pthread_barrier_wait(&barrier);
    for (unsigned n = 0; n < size; n++) {
        transfer(kernel_random(&random));
        if (n % 64 == thread)
            audit();
    }
    pthread_mutex_lock(&finished_lock);
    if (++finished == threads)
        pthread_cond_signal(&all_finished);
    while (thread == 0 && finished < threads)
        pthread_cond_wait(&all_finished, &finished_lock);
    pthread_mutex_unlock(&finished_lock);
    return NULL;
}

int main(int count, char **words)
{
    long balances[ACCOUNTS];
    kernel_start(count, words, 1000, 1u << 24);
    for (unsigned a = 0; a < ACCOUNTS; a++) {
        pthread_mutex_init(&accounts[a].lock, NULL);
        accounts[a].balance = START;
    }
    kernel_run(work);
    audit();
    for (unsigned a = 0; a < ACCOUNTS; a++)
        balances[a] = accounts[a].balance;
    return kernel_ok(checksum(balances, sizeof balances));
}
