// A C++ program that is run with the support library: the parts of the C++ library that lock, wait,
// allocate and end are to work through it.
#include "seawall.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" size_t malloc_usable_size(void *);

static void expect(bool holds, const char *what)
{
    if (!holds) {
        std::fprintf(stderr, "not so: %s\n", what);
        std::exit(1);
    }
}

static std::atomic<int> destroyed{0};

struct OfThread {
    int value = 1;
    ~OfThread() { destroyed++; }
};
thread_local OfThread of_thread;

struct AtEnd {
    ~AtEnd() { std::cout << "end of statics" << std::endl; }
};
static AtEnd at_end;

static int constructed = 0;
struct Slow {
    Slow()
    {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        constructed++;
    }
};

static void locks()
{
    std::mutex mutex;
    std::recursive_mutex recursive;
    std::shared_mutex shared;
    std::condition_variable changed;
    int count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++) {
        threads.emplace_back([&] {
            static Slow slow;
            of_thread.value++;
            for (int j = 0; j < 500; j++) {
                std::lock_guard<std::recursive_mutex> outer(recursive);
                std::lock_guard<std::recursive_mutex> inner(recursive);
                std::unique_lock<std::shared_mutex> write(shared);
                std::lock_guard<std::mutex> lock(mutex);
                count++;
                changed.notify_all();
            }
        });
    }
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return count == 3000; });
    auto never = [] { return false; };
    expect(!changed.wait_for(lock, std::chrono::microseconds(100), never), "timeout");
    lock.unlock();
    for (auto &thread : threads)
        thread.join();
    expect(constructed == 1, "a static is constructed once");
    expect(destroyed == 6, "objects of threads are destroyed");
}

static void waits()
{
    std::atomic<int> turn{0};
    std::thread other([&] {
        for (int i = 0; i < 200; i++) {
            turn.wait(2 * i);
            turn = 2 * i + 2;
            turn.notify_all();
        }
    });
    for (int i = 0; i < 200; i++) {
        turn = 2 * i + 1;
        turn.notify_all();
        turn.wait(2 * i + 1);
    }
    other.join();
    std::promise<int> promise;
    auto future = promise.get_future();
    auto result = std::async(std::launch::async, [&] { return future.get() + 1; });
    promise.set_value(41);
    expect(result.get() == 42, "async");
    std::once_flag once;
    int runs = 0;
    for (int i = 0; i < 3; i++)
        std::call_once(once, [&] { runs++; });
    expect(runs == 1, "call_once");
}

static void library()
{
    std::map<std::string, int> words;
    std::istringstream text("one two three two");
    for (std::string word; text >> word;)
        words[word]++;
    expect(words["two"] == 2 && words.size() == 3, "map");
    std::vector<int> numbers(100000);
    for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<int>(i * 7919 % 100003);
    std::sort(numbers.begin(), numbers.end());
    expect(std::is_sorted(numbers.begin(), numbers.end()), "sort");
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        expect(std::string(error.what()) == "thrown", "exceptions");
    }
    struct alignas(128) Wide {
        char bytes[128];
    };
    auto *wide = new Wide[3];
    expect(reinterpret_cast<uintptr_t>(wide) % 128 == 0, "aligned new");
    delete[] wide;
    // The heap of the support library is where the host has put it.
    void *memory = ::operator new(100);
    expect(reinterpret_cast<uintptr_t>(memory) >> 40 == 0x20, "operator new uses the heap");
    ::operator delete(memory);
    expect(std::thread::hardware_concurrency() == 48, "cores");
    auto now = std::chrono::system_clock::now().time_since_epoch();
    auto date = std::chrono::seconds(1577836800);
    expect(now >= date && now < date + std::chrono::seconds(1000), "date");
}

int main(int count, char **arguments)
{
    expect(count == 2 && std::string(arguments[1]) == "argument", "arguments");
    seawall_region_begins();
    locks();
    waits();
    library();
    seawall_reports(1);
    seawall_region_ends();
    std::ios::sync_with_stdio(false);
    std::cout << "all is well\n";
    return 7;
}
