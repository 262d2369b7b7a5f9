// flag.cpp: a flag in the pool is set through the standard library, before what it stands for is
// flushed.
//
//     flag run POOL        flag check POOL
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

struct Pool {
    alignas(64) std::uint64_t flag;
    alignas(64) std::uint64_t words[16];
};

static void publish(Pool &pool)
{
    std::fill_n(pool.words, 16, std::uint64_t(7)); // fills
    std::atomic_ref(pool.flag).store(1, std::memory_order_release); // sets
    _mm_clflush(&pool.flag);
    _mm_sfence();
}

int main(int count, char **words)
{
    int file = open(words[2], O_RDWR | O_CREAT, 0600);
    if (count < 3 || ftruncate(file, sizeof(Pool)) != 0)
        return 3;
    void *at = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto *pool = static_cast<Pool *>(at);
    if (words[1][0] == 'c')
        return pool->flag != 0 && std::count(pool->words, pool->words + 16, 7u) != 16;
    publish(*pool);
    return 0;
}
