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
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
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
    std::unordered_map<int, int> table;
    for (int i = 0; i < 1000; i++)
        table[i * 7919] = i;
    expect(table.size() == 1000 && table[7919] == 1, "hash table");
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

// A node of std::set as libstdc++ lays it out; the header follows the comparison.
struct Node {
    uint32_t is_black;
    Node *parent, *left, *right;
};

// The number of black nodes on each way down.
static int height_of(const Node *node, const Node *parent)
{
    if (node == nullptr)
        return 0;
    auto is_red = [](const Node *node) { return node != nullptr && node->is_black == 0; };
    expect(node->parent == parent, "a node knows its parent");
    expect(!is_red(node) || (!is_red(node->left) && !is_red(node->right)), "no red below red");
    int left = height_of(node->left, node);
    expect(left == height_of(node->right, node), "all ways have as many black nodes");
    return left + static_cast<int>(node->is_black);
}

static void trees()
{
    uint64_t random = 1;
    for (unsigned range = 1; range < 60; range++) {
        std::set<unsigned> set;
        std::vector<unsigned> sorted;
        for (int i = 0; i < 300; i++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            unsigned key = static_cast<unsigned>(random >> 40) % range;
            auto at = std::lower_bound(sorted.begin(), sorted.end(), key);
            bool is_in = at != sorted.end() && *at == key;
            if ((random >> 33 & 1) == 0) {
                expect(set.insert(key).second == !is_in, "insert");
                if (!is_in)
                    sorted.insert(at, key);
            } else {
                expect(set.erase(key) == is_in, "erase");
                if (is_in)
                    sorted.erase(at);
            }
            auto *header = reinterpret_cast<const Node *>(reinterpret_cast<char *>(&set) + 8);
            height_of(header->parent, header);
            expect(std::equal(set.begin(), set.end(), sorted.begin(), sorted.end()), "in order");
            expect(std::equal(set.rbegin(), set.rend(), sorted.rbegin(), sorted.rend()), "back");
        }
    }
}

static void lists()
{
    std::list<int> list;
    for (int i = 0; i < 100; i++)
        list.push_back(i * 37 % 101);
    list.sort();
    expect(std::is_sorted(list.begin(), list.end()) && list.size() == 100, "sort of a list");
    list.reverse();
    expect(std::is_sorted(list.rbegin(), list.rend()) && list.size() == 100, "reverse");
    std::list<int> other{-1, -2};
    other.splice(std::next(other.begin()), list, list.begin(), std::next(list.begin(), 3));
    expect(other == std::list<int>{-1, 100, 99, 98, -2}, "splice");
    std::list<int> none;
    none.swap(list);
    list.swap(none);
    other.swap(list);
    other.swap(list);
    other.remove(99);
    expect(other == std::list<int>{-1, 100, 98, -2} && list.size() == 97, "remove");
}

// What a thread that is none says.
template <typename Operation> static bool is_refused(Operation operation)
{
    try {
        operation();
    } catch (const std::system_error &) {
        return true;
    }
    return false;
}

static void handles()
{
    std::atomic<int> runs{0};
    std::thread joined([&] { runs++; });
    joined.join();
    expect(runs == 1 && !joined.joinable(), "join");
    expect(is_refused([&] { joined.join(); }), "it is joined once");
    std::thread left([&] { runs++; });
    left.detach();
    expect(!left.joinable() && is_refused([&] { left.detach(); }), "it is detached once");
    while (runs != 2)
        std::this_thread::yield();
}

int main(int count, char **arguments)
{
    expect(count == 2 && std::string(arguments[1]) == "argument", "arguments");
    seawall_region_begins();
    locks();
    waits();
    library();
    trees();
    lists();
    handles();
    seawall_reports(1);
    seawall_region_ends();
    std::ios::sync_with_stdio(false);
    std::cout << "all is well\n";
    return 7;
}
