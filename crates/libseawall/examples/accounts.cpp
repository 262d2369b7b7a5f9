// Accounts in a file, and threads that move money between them: an undo transaction stores by
// pointers, and the sum of all is the same whenever the program is killed.
//
//   accounts POOL transfer THREADS STEPS    says each step when it is durable
//   accounts POOL check
#include <libseawall.hpp>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::uint64_t accounts = 100, threads_max = 64, start = 1000;

struct books {
    std::uint64_t money[accounts];
    std::uint64_t steps[threads_max]; // that each thread has made
};

struct root {
    seawall::ref books;
    char notes[SW_MAP_BYTES]; // a map: what is said of an account
};

std::mutex lock; // the library locks nothing of the program

void transfer(const seawall::pool &pool, std::uint64_t thread, std::uint64_t steps) {
    const auto base = pool.direct<root>(pool.root())->books;
    auto *all = pool.direct<books>(base);
    const auto offset = [&](const std::uint64_t &word) {
        return static_cast<std::uint64_t>(reinterpret_cast<const char *>(&word) -
                                          reinterpret_cast<const char *>(all));
    };
    for (std::uint64_t step = 0; step < steps; ++step) {
        std::uint64_t &from = all->money[(7 * step + thread) % accounts];
        std::uint64_t &to = all->money[(13 * step + 5 * thread + 1) % accounts];
        {
            const std::lock_guard<std::mutex> guard(lock);
            seawall::transaction tx(pool, SW_UNDO);
            for (const auto *word : {&from, &to, &all->steps[thread]}) {
                tx.add(base, offset(*word), sizeof *word);
            }
            const std::uint64_t amount = from / 3;
            from -= amount;
            to += amount;
            all->steps[thread] += 1;
            if (step % 5 == 4) {
                continue; // rolled back: the destructor does it
            }
            tx.commit(); // durable here
        }
        std::ostringstream line;
        line << thread << ' ' << all->steps[thread] << '\n';
        const std::string text = line.str();
        if (write(1, text.data(), text.size()) < 0) {
            return;
        }
    }
}

int check(const seawall::pool &pool) {
    const auto *all = pool.direct<books>(pool.direct<root>(pool.root())->books);
    std::uint64_t sum = 0;
    for (const auto money : all->money) {
        sum += money;
    }
    for (std::uint64_t thread = 0; thread < threads_max; ++thread) {
        std::cout << thread << ' ' << all->steps[thread] << '\n';
    }
    std::cerr << "sum " << sum << '\n';
    return sum == accounts * start ? 0 : 1;
}

seawall::pool opened(const std::string &path) {
    seawall::options options{};
    options.layout = "accounts 1";
    auto pool = seawall::pool::open_or_create(path, options);
    const auto at = pool.root();
    if (pool.direct<root>(at)->books == 0) {
        seawall::run(pool, SW_REDO, [&](seawall::transaction &tx) {
            const auto made = tx.alloc(std::string(sizeof(books), '\0'));
            for (std::uint64_t account = 0; account < accounts; ++account) {
                tx.store(made, 8 * account, start);
            }
            tx.store(at, offsetof(root, books), made);
        });
    }
    return pool;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc < 3) {
            return 2;
        }
        auto pool = opened(argv[1]);
        seawall::map notes(pool, pool.root() + offsetof(root, notes));
        notes.put("last", argv[2]);
        if (notes.get("last") != std::string(argv[2]) || notes.get("none")) {
            return 1;
        }
        if (argc < 5) {
            return check(pool);
        }
        std::vector<std::thread> threads;
        for (std::uint64_t thread = 0; thread < std::strtoull(argv[3], nullptr, 10); ++thread) {
            threads.emplace_back(transfer, std::cref(pool), thread,
                                 std::strtoull(argv[4], nullptr, 10));
        }
        for (auto &thread : threads) {
            thread.join();
        }
        return 0;
    } catch (const seawall::error &error) {
        std::cerr << "accounts: " << error.what() << '\n';
        return 1;
    }
}
