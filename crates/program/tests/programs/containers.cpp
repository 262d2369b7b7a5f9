// Nodes of containers and the handles of threads, which the C++ library changes in functions of its
// own; and an array of a frame, of which some accesses have an index and some have none.
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#define NODES 200

// Asks about the machine before main.
static const unsigned cores = std::thread::hardware_concurrency();

static long nodes()
{
    auto map = std::make_unique<std::map<long, long>>();
    auto list = std::make_unique<std::list<long>>();
    auto table = std::make_unique<std::unordered_map<long, long>>();
    for (long i = 0; i < NODES; i++) {
        (*map)[i * 37 % 211] = i;
        list->push_back(i * 37 % 211);
        (*table)[i] = i;
    }
    for (long i = 0; i < NODES; i += 2)
        map->erase(i);
    list->sort();
    list->reverse();
    list->remove(7);
    return static_cast<long>(map->size() + list->size() + table->size());
}

__attribute__((noipa)) static long counted(const char *text)
{
    long counts[4] = {0, 1, 2, 3};
    for (; *text != 0; text++)
        counts[*text % 4]++;
    return counts[0] + 2 * counts[1] + 3 * counts[2] + 4 * counts[3];
}

int main()
{
    auto threads = std::make_unique<std::vector<std::thread>>();
    auto sums = std::make_unique<std::vector<long>>(3);
    for (long i = 0; i < 3; i++)
        threads->emplace_back([i, &sums] { (*sums)[i] = nodes() + counted("some text"); });
    for (auto &thread : *threads)
        thread.join();
    bool is_same = (*sums)[0] == (*sums)[1] && (*sums)[1] == (*sums)[2];
    return is_same && cores > 0 ? 0 : 1;
}
