// features.cpp: what compiled C++ does besides; each test prints "name ok", or what is wrong. The
// output is the same wherever it runs: no addresses, no times.
//
//     features_cpp              runs all tests
//     features_cpp NAME...      runs these
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

std::atomic<int> failures;

#define CHECK(...)                                                            \
    do {                                                                      \
        if (!(__VA_ARGS__)) {                                                 \
            std::printf("%s:%d: %s\n", __func__, __LINE__, #__VA_ARGS__);     \
            failures++;                                                       \
        }                                                                     \
    } while (0)

template <typename Work> void on_threads(unsigned count, Work work)
{
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; t++)
        threads.emplace_back(work, t);
    for (std::thread &thread : threads)
        thread.join();
}

template <typename T> bool atomic_works()
{
    std::atomic<T> at{1};
    T old = 1;
    at.fetch_add(2);
    at |= 4;
    at ^= 1;
    bool refused = !at.compare_exchange_strong(old, 9) && old == 6;
    return refused && at.compare_exchange_strong(old, 9) && at.exchange(3) == 9 && at-- == 3;
}

void atomics()
{
    CHECK(atomic_works<std::int8_t>() && atomic_works<std::uint16_t>());
    CHECK(atomic_works<int>() && atomic_works<std::uint64_t>());
    struct Pair {
        std::uint32_t a, b;
    };
    std::atomic<Pair> pair{Pair{1, 2}};
    on_threads(4, [&pair](unsigned) {
        for (int n = 0; n < 100; n++) {
            Pair old = pair.load();
            while (!pair.compare_exchange_weak(old, Pair{old.a + 1, old.b + 2}))
                continue;
        }
    });
    CHECK(pair.load().a == 401 && pair.load().b == 802);
    std::atomic<double> sum{0};
    on_threads(4, [&sum](unsigned t) {
        for (double old = sum; !sum.compare_exchange_weak(old, old + t);)
            continue;
    });
    CHECK(sum == 6);
}

struct Guard {
    explicit Guard(int &count) : count_(count) { ++count_; }
    ~Guard() { --count_; }
    int &count_;
};

int throws(int depth, int &count)
{
    Guard guard(count);
    if (depth == 0)
        throw std::out_of_range("the bottom");
    return throws(depth - 1, count) + 1;
}

void exceptions()
{
    int count = 0;
    std::string what;
    try {
        throws(20, count);
    } catch (const std::logic_error &error) {
        what = error.what();
    }
    CHECK(what == "the bottom" && count == 0);
    try {
        try {
            throw 5;
        } catch (int) {
            std::throw_with_nested(std::runtime_error("outer"));
        }
    } catch (const std::exception &outer) {
        try {
            std::rethrow_if_nested(outer);
        } catch (int inner) {
            count = inner;
        }
    }
    CHECK(count == 5);
    on_threads(4, [](unsigned t) {
        int mine = 0;
        for (unsigned n = 0; n < 10; n++) {
            try {
                throws(static_cast<int>(t), mine);
            } catch (...) {
                mine += 10;
            }
        }
        CHECK(mine == 100);
    });
    std::exception_ptr kept;
    std::thread([&kept] {
        try {
            std::vector<int>().at(3);
        } catch (...) {
            kept = std::current_exception();
        }
    }).join();
    bool same = false;
    try {
        std::rethrow_exception(kept);
    } catch (const std::out_of_range &) {
        same = true;
    }
    CHECK(same);
}

struct Shape {
    virtual ~Shape() = default;
    virtual int area() const = 0;
};

struct Named {
    explicit Named(std::string name) : name(std::move(name)) {}
    virtual ~Named() = default;
    std::string name;
};

struct Square : Shape, Named {
    explicit Square(int side) : Named("square"), side(side) {}
    int area() const override { return side * side; }
    int side;
};

struct Double : Shape {
    explicit Double(std::shared_ptr<Shape> of) : of(std::move(of)) {}
    int area() const override { return 2 * of->area(); }
    std::shared_ptr<Shape> of;
};

void classes()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    auto shared = std::make_shared<Square>(3);
    std::weak_ptr<Square> weak = shared;
    for (int n = 1; n < 5; n++)
        shapes.push_back(std::make_unique<Square>(n));
    shapes.push_back(std::make_unique<Double>(shared));
    int sum = 0;
    for (const auto &shape : shapes)
        sum += shape->area();
    CHECK(sum == 1 + 4 + 9 + 16 + 18);
    auto *named = dynamic_cast<Named *>(shapes[2].get());
    CHECK(named && named->name == "square" && !dynamic_cast<Named *>(shapes[4].get()));
    CHECK(shared.use_count() == 2);
    shapes.clear();
    shared.reset();
    CHECK(weak.expired());
}

void containers()
{
    std::map<std::string, int> map;
    std::unordered_map<int, std::string> table;
    std::set<int> set;
    std::deque<int> deque;
    for (int n = 0; n < 300; n++) {
        map["key" + std::to_string(n % 100)] += n;
        table[n * 7919] = std::string(static_cast<std::size_t>(n % 40), 'x');
        set.insert(n * 31 % 97);
        n % 2 ? deque.push_back(n) : deque.push_front(n);
    }
    for (int n = 0; n < 300; n += 3)
        table.erase(n * 7919);
    CHECK(map.size() == 100 && map["key7"] == 7 + 107 + 207 && table.size() == 200);
    CHECK(table.at(7919 * 298).size() == 18 && set.size() == 97 && *set.rbegin() == 96);
    CHECK(deque.front() == 298 && deque.back() == 299 && deque[150] == 1);
    std::vector<int> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937(5));
    CHECK(!std::is_sorted(numbers.begin(), numbers.end()));
    std::stable_sort(numbers.begin(), numbers.end(), std::greater<>());
    CHECK(numbers[0] == 999 && std::accumulate(numbers.begin(), numbers.end(), 0) == 499500);
    numbers.erase(std::remove_if(numbers.begin(), numbers.end(), [](int n) { return n % 3; }),
                  numbers.end());
    CHECK(numbers.size() == 334);
}

void values()
{
    std::variant<int, std::string, std::vector<double>> variant = std::string("text");
    std::size_t size = std::visit(
        [](const auto &value) -> std::size_t {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int>)
                return 0;
            else
                return value.size();
        },
        variant);
    auto [quotient, rest] = std::tuple(17 / 5, 17 % 5);
    std::optional<int> maybe;
    CHECK(size == 4 && quotient == 3 && rest == 2 && maybe.value_or(8) == 8);
    std::function<int(int)> factorial = [&factorial](int n) {
        return n < 2 ? 1 : n * factorial(n - 1);
    };
    CHECK(factorial(10) == 3628800);
    std::ostringstream out;
    out << std::string_view("number ").substr(3) << 42 << ' ' << 2.5 << ' ' << std::hex << 255;
    CHECK(out.str() == "ber 42 2.5 ff");
    std::istringstream in("3 4.5 word");
    int number = 0;
    double real = 0;
    std::string word;
    in >> number >> real >> word;
    CHECK(number == 3 && real == 4.5 && word == "word" && in.eof());
}

thread_local std::vector<int> own{1, 2};
thread_local int own_count = static_cast<int>(own.size());
std::atomic<int> ended;

struct AtEnd {
    ~AtEnd() { ended++; }
    int used = 0;
};

thread_local AtEnd at_end;

void thread_locals()
{
    ended = 0;
    on_threads(4, [](unsigned t) {
        own.push_back(static_cast<int>(t));
        own_count++;
        at_end.used++;
        CHECK(own.size() == 3 && own_count == 3 && own[2] == static_cast<int>(t));
    });
    CHECK(ended == 4);
}

struct Once {
    Once() { made++; }
    static std::atomic<int> made;
};

std::atomic<int> Once::made;

void locks()
{
    std::mutex mutex, other;
    std::shared_mutex shared;
    std::recursive_mutex recursive;
    std::once_flag flag;
    int count = 0, once = 0, written = 0;
    on_threads(4, [&](unsigned t) {
        static Once made_once;
        std::call_once(flag, [&once] { once++; });
        for (int n = 0; n < 50; n++) {
            {
                std::scoped_lock both(t % 2 ? mutex : other, t % 2 ? other : mutex);
                count++;
            }
            if (n % 5 == 0) {
                std::unique_lock<std::shared_mutex> writer(shared);
                written++;
            } else {
                std::shared_lock<std::shared_mutex> reader(shared);
                CHECK(written <= 40);
            }
            std::lock_guard<std::recursive_mutex> outside(recursive);
            std::lock_guard<std::recursive_mutex> inside(recursive);
        }
    });
    CHECK(count == 200 && once == 1 && written == 40 && Once::made == 1);
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    CHECK(lock.owns_lock());
}

// A queue of bounded size between threads.
template <typename T, std::size_t size> class Channel {
  public:
    void send(T value)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        room_.wait(lock, [this] { return values_.size() < size; });
        values_.push_back(std::move(value));
        filled_.notify_one();
    }

    T receive()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        filled_.wait(lock, [this] { return !values_.empty(); });
        T value = std::move(values_.front());
        values_.pop_front();
        room_.notify_one();
        return value;
    }

  private:
    std::mutex mutex_;
    std::condition_variable room_, filled_;
    std::deque<T> values_;
};

void conditions()
{
    Channel<std::unique_ptr<int>, 3> channel;
    std::atomic<int> sum{0};
    on_threads(4, [&](unsigned t) {
        for (int n = 1; n <= 50; n++) {
            if (t % 2)
                channel.send(std::make_unique<int>(n));
            else
                sum += *channel.receive();
        }
    });
    CHECK(sum == 2 * 50 * 51 / 2);
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    CHECK(never.wait_for(lock, std::chrono::microseconds(50)) == std::cv_status::timeout);
}

void futures()
{
    auto square = [](int n) { return n * n; };
    std::vector<std::future<int>> results;
    for (int n = 0; n < 6; n++)
        results.push_back(std::async(std::launch::async, square, n));
    int sum = 0;
    for (auto &result : results)
        sum += result.get();
    CHECK(sum == 55);
    auto deferred = std::async(std::launch::deferred, square, 9);
    CHECK(deferred.get() == 81);
    auto failing = std::async(std::launch::async, []() -> int { throw std::length_error("x"); });
    bool failed = false;
    try {
        failing.get();
    } catch (const std::length_error &) {
        failed = true;
    }
    CHECK(failed);
    std::promise<std::string> promise;
    std::shared_future<std::string> shared = promise.get_future().share();
    std::thread waiter([shared] { CHECK(shared.get() == "given"); });
    promise.set_value("given");
    waiter.join();
    std::packaged_task<int(int)> task(square);
    auto packaged = task.get_future();
    std::thread(std::move(task), 12).join();
    CHECK(packaged.get() == 144);
}

struct alignas(128) Aligned {
    std::array<long, 20> words{};
};

void allocation()
{
    std::vector<std::unique_ptr<Aligned>> many;
    for (int n = 0; n < 50; n++) {
        many.push_back(std::make_unique<Aligned>());
        CHECK(reinterpret_cast<std::uintptr_t>(many.back().get()) % 128 == 0);
        many.back()->words[19] = n;
    }
    CHECK(many[49]->words[19] == 49 && many[3]->words[0] == 0);
    alignas(Aligned) unsigned char space[sizeof(Aligned)];
    auto *placed = new (space) Aligned;
    placed->words[5] = 6;
    CHECK(std::launder(placed)->words[5] == 6);
    placed->~Aligned();
    auto *array = new std::string[10];
    array[9] = "a string that is too long for the short form";
    CHECK(array[9].size() == 44);
    delete[] array;
    std::unique_ptr<char[]> quiet(new (std::nothrow) char[16]);
    CHECK(quiet != nullptr);
}

void times()
{
    auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(1));
    CHECK(std::thread::hardware_concurrency() > 0);
    std::this_thread::yield();
}

const std::pair<std::string_view, void (*)()> tests[] = {
    {"atomics", atomics},       {"exceptions", exceptions},       {"classes", classes},
    {"containers", containers}, {"values", values},               {"thread_locals", thread_locals},
    {"locks", locks},           {"conditions", conditions},       {"futures", futures},
    {"allocation", allocation}, {"times", times},
};

// Made before main and used after it.
struct Static {
    Static() : text("static") {}
    ~Static() { std::cout << text << " end" << std::endl; }
    std::string text;
} made_static;

} // namespace

int main(int count, char **words)
{
    bool failed = false, known = false;
    for (const auto &[name, run] : tests) {
        if (count > 1 && std::find(words + 1, words + count, name) == words + count)
            continue;
        known = true;
        failures = 0;
        run();
        std::cout << name << (failures ? " failed" : " ok") << std::endl;
        failed |= failures != 0;
    }
    if (!known) {
        std::cerr << "no such test" << std::endl;
        return 2;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
