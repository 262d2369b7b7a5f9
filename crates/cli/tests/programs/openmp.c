/* openmp.c: a sum by threads of OpenMP. */
int main(void)
{
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long n = 0; n < 1000; n++)
        sum += n;
    return sum != 499500;
}
