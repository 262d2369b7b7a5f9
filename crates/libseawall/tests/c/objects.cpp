// All of libseawall.hpp. Ends with 0 if everything is as it should be; else says the line.
#include <libseawall.hpp>

#include <iostream>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace {

int bad = 0;

void expect(bool is_so, int line) {
    if (!is_so) {
        std::cerr << "objects.cpp:" << line << '\n';
        ++bad;
    }
}

#define EXPECT(is_so) expect(is_so, __LINE__)

template <typename Act> int status_of(Act act) {
    try {
        act();
        return SW_OK;
    } catch (const seawall::error &error) {
        EXPECT(std::string(error.what()).size() > 10);
        return error.status();
    }
}

void transactions(const seawall::pool &pool) {
    const auto root = pool.root();
    seawall::ref kept = 0;
    {
        seawall::transaction tx(pool);
        tx.store(root, 64, 5);
        kept = tx.alloc("some text");
        EXPECT(tx.load(root, 64) == 5);
        EXPECT(tx.read(kept, 0, 9) == "some text");
        EXPECT(status_of([&] { tx.load(root, 3); }) == SW_INVALID);
        EXPECT(status_of([&] { tx.add(root, 0, 8); }) == SW_INVALID);
        EXPECT(status_of([&] { seawall::transaction second(pool); }) == SW_MISUSE);
        tx.commit();
        EXPECT(status_of([&] { tx.commit(); }) == SW_MISUSE);
    }
    {
        seawall::transaction tx(pool);
        tx.store(root, 64, 6);
        tx.free(kept);
    } // rolled back
    EXPECT(pool.direct<std::uint64_t>(root)[8] == 5);
    EXPECT(std::string_view(pool.direct<char>(kept), 9) == "some text");
    EXPECT(pool.direct<char>(0) == nullptr);
    EXPECT(status_of([&] { pool.direct<char>(8); }) == SW_INVALID);
    EXPECT(status_of([&] { pool.drain(); }) == SW_INVALID);
    try {
        seawall::transaction tx(pool, SW_UNDO);
        tx.write(root, 64, "12345678");
        EXPECT(pool.direct<char>(root)[64] == '1');
        throw 7;
    } catch (int) {
        EXPECT(pool.direct<std::uint64_t>(root)[8] == 5);
    }
    seawall::transaction tx(pool);
    tx.abort();
}

void maps(const seawall::pool &pool) {
    seawall::map map(pool, pool.root());
    seawall::ordered_map ordered(pool, pool.root() + SW_MAP_BYTES);
    std::map<std::string, std::string> model;
    for (std::uint64_t number = 0; number < 1000; ++number) {
        const auto key = std::to_string(number);
        const std::string value(number % 200, 'v');
        EXPECT(!map.put(key, value));
        EXPECT(!ordered.put(number * number, number));
        model[key] = value;
    }
    EXPECT(map.count() == 1000 && ordered.count() == 1000);
    EXPECT(map.get("150") == std::string(150, 'v'));
    EXPECT(!map.get("none") && !ordered.get(2));
    EXPECT(ordered.get(81) == 9u);
    std::map<std::string, std::string> found;
    map.for_each([&](std::string_view key, std::string_view value) { found.emplace(key, value); });
    EXPECT(found == model);
    const auto all = ordered.range(0, UINT64_MAX);
    EXPECT(all.size() == 1000 && all[999] == std::make_pair(std::uint64_t{998001}, std::uint64_t{999}));
    EXPECT(ordered.range(16, 25).size() == 2 && ordered.range(17, 24).empty());
    EXPECT(ordered.put(UINT64_MAX, 1) == false && ordered.range(999999, UINT64_MAX).size() == 1);
    int runs = 0;
    seawall::run(pool, SW_REDO, [&](seawall::transaction &tx) {
        EXPECT(map.remove(tx, "7") && !map.remove(tx, "7") && !map.get(tx, "7"));
        EXPECT(map.put(tx, "8", "eight") && map.get(tx, "8") == std::string("eight"));
        EXPECT(ordered.remove(tx, 49) && !ordered.get(tx, 49) && ordered.put(tx, 64, 88));
        ++runs;
    });
    EXPECT(runs == 1 && !map.get("7") && map.get("8") == std::string("eight"));
    EXPECT(map.remove("8") && !map.remove("8") && ordered.remove(64) && !ordered.remove(64));
    map.check_all();
    ordered.check_all();
    EXPECT(status_of([&] { seawall::map(pool, pool.root() + 64); }) == SW_EXISTS);
}

struct link {
    std::uint64_t number;
    seawall::ref next;
    std::uint64_t filling[6];
};

/* A list, most of whose links are taken out again, while another thread moves the others. */
void moving(const std::string &path) {
    static const std::uint64_t link_refs[] = {offsetof(link, next)}, root_refs[] = {0};
    static const sw_type root = {"root", 8, root_refs, 1};
    static const sw_type types[] = {{"link", sizeof(link), link_refs, 1}};
    seawall::options options{};
    options.root = &root;
    options.types = types;
    options.type_count = 1;
    auto pool = seawall::pool::create(path, options);
    const auto push = [&](std::uint64_t number) {
        seawall::run(pool, SW_REDO, [&](seawall::transaction &tx) {
            const link made{number, tx.load(pool.root(), 0), {number}};
            tx.store(pool.root(), 0, tx.make(0, made));
        });
    };
    const auto numbers = [&] {
        std::vector<std::uint64_t> found;
        seawall::transaction tx(pool);
        for (auto at = tx.load(pool.root(), 0); at != 0; at = tx.load(at, offsetof(link, next))) {
            found.push_back(tx.load(at, offsetof(link, number)));
            EXPECT(tx.load(at, offsetof(link, filling)) == found.back());
        }
        return found;
    };
    const auto keep = [&](std::uint64_t each) {
        seawall::ref in = pool.root();
        seawall::transaction tx(pool, SW_UNDO);
        for (std::uint64_t offset = 0;;) {
            const auto at = tx.load(in, offset);
            if (at == 0) {
                break;
            }
            if (tx.load(at, offsetof(link, number)) % each == 0) {
                in = at;
                offset = offsetof(link, next);
            } else {
                tx.store(in, offset, tx.load(at, offsetof(link, next)));
                tx.free(at);
            }
        }
        tx.commit();
    };
    std::vector<std::uint64_t> expected;
    {
        seawall::collector collector(pool);
        for (std::uint64_t number = 0; number < 2000; ++number) {
            push(number);
        }
        keep(20);
        for (std::uint64_t number = 1981; number-- > 0;) {
            if (number % 20 == 0) {
                expected.push_back(number);
            }
        }
        for (int look = 0; look < 2000 && collector.done().cycles == 0; ++look) {
            EXPECT(numbers() == expected);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT(collector.done().cycles > 0 && collector.done().emptied > 0);
        EXPECT(collector.failure().empty());
    }
    while (pool.defragment(100).state == SW_DEFRAGMENT_WORKS) {
    }
    EXPECT(numbers() == expected);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) {
        return 2;
    }
    const std::string path = argv[1];
    EXPECT(status_of([&] { seawall::pool::open(path); }) == SW_MISSING);
    {
        auto pool = seawall::pool::create(path);
        EXPECT(status_of([&] { seawall::pool::create(path); }) == SW_EXISTS);
        EXPECT(status_of([&] { seawall::pool::open(path); }) == SW_IN_USE);
        auto moved = std::move(pool);
        transactions(moved);
        maps(moved);
        EXPECT(!moved.durability().empty());
    }
    auto pool = seawall::pool::open_or_create(path);
    EXPECT(seawall::map(pool, pool.root()).count() == 998);
    moving(path + ".moving");
    pool.close();
    EXPECT(status_of([&] { pool.close(); }) == SW_INVALID);
    return bad == 0 ? 0 : 1;
}
