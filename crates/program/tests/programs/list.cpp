// list.cpp: a persistent lock-free stack (Treiber's), in C++ with what its library has for threads.
//
//     list run POOL THREADS OPS [FLAW]      list check POOL [FLAW]
//
// The top is one word: the number of a node, and a tag that every change increments, so that a
// compare-exchange cannot mistake a node that was freed and used again. A node is durable before
// the compare-exchange that publishes it; whoever changed the top writes it back before the
// operation counts, and before a popped node may be used again. So whichever of its values the top
// has after a crash, the nodes below it are as they were. Free nodes are known only to the running
// program, each thread has its own.
//
// Flaws:
//   1  missing flush: a node is published before it is written back
//   2  missing flush: the top is never written back, so completed operations get lost
//   3  wrong order: a node is filled in after it is published
//   4  early reuse: a popped node is free before the top that leaves it is durable
//   5  wrong order: an operation counts as complete before the top is written back
//   6  none on x86: no fence before the compare-exchange, which is a fence itself
#include "pm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t magic = 0x317473696c;
constexpr std::uint32_t node_count = 16000;
constexpr std::size_t pool_bytes = 1 << 20;

unsigned flaw;

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename... Parts> [[noreturn]] void broken(Parts... parts)
{
    std::string text;
    auto add = [&text](auto part) {
        if constexpr (std::is_arithmetic_v<decltype(part)>)
            text += std::to_string(part);
        else
            text += part;
    };
    (add(parts), ...);
    throw Broken(text);
}

// A word in the pool that threads change by compare-exchange, and that is written back by hand.
template <typename T> class Durable {
  public:
    T load() const { return value_.load(std::memory_order_acquire); }
    void store(T value) { value_.store(value, std::memory_order_release); }
    bool exchange(T &old, T value) { return value_.compare_exchange_weak(old, value); }
    void persist() const { pm_persist(&value_, sizeof value_); }

  private:
    std::atomic<T> value_;
    static_assert(std::atomic<T>::is_always_lock_free);
};

struct Link {
    std::uint32_t node = 0; // its number plus 1, or 0
    std::uint32_t tag = 0;
};

struct alignas(PM_LINE) Node {
    Durable<std::uint32_t> next; // as in Link
    Durable<std::uint64_t> depth;
    std::uint64_t thread, operation, sum;

    std::uint64_t sum_of() const { return (thread << 40 ^ operation * 0x9e3779b97f4a7c15u) + 1; }
};

struct Pool {
    pm_header header;
    alignas(PM_LINE) Durable<Link> top;
    // The depth that the counters do not explain, of operations that crashes interrupted.
    alignas(PM_LINE) std::int64_t uncounted;
    alignas(PM_LINE) std::array<Node, node_count> nodes;
};
static_assert(sizeof(Pool) <= pool_bytes);

Pool *pool;

// Hands out nodes. Each thread keeps those that it freed, and takes shares of the rest.
class Nodes {
  public:
    void add(std::uint32_t node) { rest_.push_back(node); }

    std::uint32_t take()
    {
        if (own_.empty())
            refill();
        std::uint32_t node = own_.back();
        own_.pop_back();
        return node;
    }

    void give(std::uint32_t node) { own_.push_back(node); }

  private:
    void refill()
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (rest_.empty())
            throw std::length_error("the stack is full");
        for (unsigned n = 0; n < 16 && !rest_.empty(); n++) {
            own_.push_back(rest_.back());
            rest_.pop_back();
        }
    }

    std::mutex lock_;
    std::vector<std::uint32_t> rest_;
    static thread_local std::vector<std::uint32_t> own_;
};

thread_local std::vector<std::uint32_t> Nodes::own_;
Nodes nodes;

bool pushes(std::uint64_t thread, std::uint64_t number)
{
    return pm_random(thread, number) % 100 < 54;
}

void fill(Node &node, std::uint64_t thread, std::uint64_t operation)
{
    node.thread = thread;
    node.operation = operation;
    node.sum = node.sum_of();
}

void finish(std::uint64_t thread, std::uint64_t operation)
{
    if (flaw == 5)
        pm_complete(&pool->header, thread, operation + 1);
    if (flaw != 2)
        pool->top.persist();
}

void push(std::uint64_t thread, std::uint64_t operation)
{
    std::uint32_t name = nodes.take() + 1;
    Node &node = pool->nodes[name - 1];
    Link old = pool->top.load();
    if (flaw != 3)
        fill(node, thread, operation);
    do {
        node.next.store(old.node);
        node.depth.store(old.node ? pool->nodes[old.node - 1].depth.load() + 1 : 1);
        if (flaw != 1)
            pm_flush(&node, sizeof node);
        if (flaw != 6)
            pm_fence();
    } while (!pool->top.exchange(old, Link{name, old.tag + 1}));
    finish(thread, operation);
    if (flaw == 3) {
        fill(node, thread, operation);
        pm_persist(&node, sizeof node);
    }
}

bool pop(std::uint64_t thread, std::uint64_t operation)
{
    Link old = pool->top.load(), next;
    do {
        if (!old.node)
            return false;
        next = Link{pool->nodes[old.node - 1].next.load(), old.tag + 1};
    } while (!pool->top.exchange(old, next));
    if (flaw == 4) { // a push that is quick enough to use the node again
        nodes.give(old.node - 1);
        Node &node = pool->nodes[old.node - 1];
        fill(node, thread, operation);
        pm_persist(&node, sizeof node);
    }
    finish(thread, operation);
    if (flaw != 4)
        nodes.give(old.node - 1);
    return true;
}

// Opens when all threads have come.
class Gate {
  public:
    explicit Gate(std::uint64_t threads) : missing_(threads) {}

    void pass()
    {
        std::unique_lock<std::mutex> guard(lock_);
        if (--missing_ == 0)
            open_.notify_all();
        open_.wait(guard, [this] { return missing_ == 0; });
    }

  private:
    std::mutex lock_;
    std::condition_variable open_;
    std::uint64_t missing_;
};

void work(std::uint64_t thread, std::uint64_t operations, Gate &gate)
{
    gate.pass();
    pm_counter &counter = pool->header.done[thread];
    std::uint64_t first = counter.value;
    for (std::uint64_t n = first; n < first + operations; n++) {
        if (pushes(thread, n))
            push(thread, n);
        else if (pop(thread, n))
            counter.extra++;
        pm_complete(&pool->header, thread, n + 1);
    }
}

// What a walk down the stack finds.
struct Found {
    std::uint64_t depth = 0;
    std::vector<bool> reached = std::vector<bool>(node_count);
    // The first entry of each thread from the top.
    std::array<std::optional<std::uint64_t>, PM_THREADS_MAX> newest;
};

Found walk()
{
    Found found;
    std::array<std::optional<std::uint64_t>, PM_THREADS_MAX> last;
    std::uint32_t at = pool->top.load().node;
    for (std::uint64_t depth = 0; at; at = pool->nodes[at - 1].next.load(), depth--) {
        if (at > node_count)
            broken("a link leads out of the pool");
        const Node &node = pool->nodes[at - 1];
        if (found.reached[at - 1])
            broken("the stack has a loop at node ", at - 1);
        found.reached[at - 1] = true;
        if (found.depth == 0)
            found.depth = depth = node.depth.load();
        if (depth == 0 || node.depth.load() != depth)
            broken("node ", at - 1, " is at depth ", depth, ", not ", node.depth.load());
        std::uint64_t t = node.thread, n = node.operation;
        if (node.sum != node.sum_of() || t >= pool->header.threads)
            broken("node ", at - 1, " is torn");
        if (n > pool->header.done[t].value || !pushes(t, n))
            broken("operation ", n, " of thread ", t, " pushed no entry");
        if (last[t] && *last[t] <= n)
            broken("the entries of thread ", t, " are not in order");
        if (depth == 1 && node.next.load() != 0)
            broken("there is an entry below depth 1");
        last[t] = n;
        if (!found.newest[t])
            found.newest[t] = n;
    }
    if (at == 0 && found.depth != 0 &&
        static_cast<std::uint64_t>(std::count(found.reached.begin(), found.reached.end(), true)) !=
            found.depth)
        broken("the stack ends above depth 1");
    return found;
}

std::int64_t pushed(std::uint64_t thread)
{
    std::int64_t pushed = 0;
    for (std::uint64_t n = 0; n < pool->header.done[thread].value; n++)
        pushed += pushes(thread, n);
    return pushed;
}

// The depth by the counters, each of which is a task.
std::int64_t counted_depth(std::launch policy)
{
    std::vector<std::future<std::int64_t>> counts;
    for (std::uint64_t t = 0; t < pool->header.threads; t++)
        counts.push_back(std::async(policy, pushed, t));
    std::int64_t depth = pool->uncounted;
    for (std::uint64_t t = 0; t < pool->header.threads; t++)
        depth += counts[t].get() - static_cast<std::int64_t>(pool->header.done[t].extra);
    return depth;
}

void check(const Found &found)
{
    std::int64_t pushing = 0, popping = 0, depth = static_cast<std::int64_t>(found.depth);
    for (std::uint64_t t = 0; t < pool->header.threads; t++)
        ++(pushes(t, pool->header.done[t].value) ? pushing : popping);
    std::int64_t counted = counted_depth(std::launch::deferred);
    if (depth < counted - popping || depth > counted + pushing)
        broken("the counters say that the depth is ", counted, ", it is ", depth);
}

// Counts the operations that a crash interrupted after their effect, and finds the free nodes.
void settle(const Found &found)
{
    for (std::uint64_t t = 0; t < pool->header.threads; t++)
        if (found.newest[t] == pool->header.done[t].value)
            pm_complete(&pool->header, t, pool->header.done[t].value + 1);
    pool->uncounted += static_cast<std::int64_t>(found.depth) - counted_depth(std::launch::async);
    pm_persist(&pool->uncounted, sizeof pool->uncounted);
    for (std::uint32_t node = node_count; node-- > 0;)
        if (!found.reached[node])
            nodes.add(node);
}

int run(const pm_command &command)
{
    pool = static_cast<Pool *>(pm_map(command.path, pool_bytes, command.run));
    bool created = pm_is_created(&pool->header, magic);
    if (!created && !command.run)
        return PM_OK;
    if (!created)
        pm_created(&pool->header, magic);
    Found found = walk();
    check(found);
    if (!command.run)
        return PM_OK;
    settle(found);
    pm_allow_threads(&pool->header, command.threads);
    Gate gate(command.threads);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < command.threads; t++)
        threads.emplace_back(work, t, command.operations, std::ref(gate));
    for (std::thread &thread : threads)
        thread.join();
    return PM_OK;
}

} // namespace

int main(int count, char **words)
{
    pm_command command = pm_command_line(count, words, 6);
    flaw = command.flaw;
    try {
        return run(command);
    } catch (const Broken &error) {
        std::fprintf(stderr, "broken: %s\n", error.what());
        return PM_BROKEN;
    }
}
