// libseawall for C++17: objects that close, roll back and free by themselves, and exceptions.
//
// Everything that libseawall.h says holds here. All of it is in this header.
#ifndef LIBSEAWALL_HPP
#define LIBSEAWALL_HPP

#include "libseawall.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace seawall {

// Every error: what() is the text, status() what kind it is.
class error : public std::runtime_error {
public:
    error(int status, const std::string &text) : std::runtime_error(text), status_(status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};

// Throws unless the status is SW_OK or SW_NOT_FOUND; tells these two apart.
inline bool check(int status) {
    if (status == SW_OK || status == SW_NOT_FOUND) {
        return status == SW_OK;
    }
    throw error(status, sw_error_text());
}

using ref = sw_ref;
using options = sw_options;

// An open pool; closed when it goes out of scope, after all that was made of it.
class pool {
public:
    static pool create(const std::string &path, const options &wanted = options{}) {
        pool made;
        check(sw_pool_create(path.c_str(), &wanted, &made.pool_));
        return made;
    }

    static pool open(const std::string &path, const options &wanted = options{}) {
        pool made;
        check(sw_pool_open(path.c_str(), &wanted, &made.pool_));
        return made;
    }

    // Opens the pool; makes it if there is no file.
    static pool open_or_create(const std::string &path, const options &wanted = options{}) {
        pool made;
        int status = sw_pool_open(path.c_str(), &wanted, &made.pool_);
        if (status == SW_MISSING) {
            status = sw_pool_create(path.c_str(), &wanted, &made.pool_);
        }
        check(status);
        return made;
    }

    pool(pool &&other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
    pool &operator=(pool &&other) noexcept {
        std::swap(pool_, other.pool_);
        return *this;
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() {
        if (pool_ != nullptr) {
            sw_pool_close(pool_);
        }
    }

    // Closes it now, and says what is in the way of that.
    void close() {
        check(sw_pool_close(pool_));
        pool_ = nullptr;
    }

    ref root() const {
        ref found = 0;
        check(sw_pool_root(pool_, &found, nullptr));
        return found;
    }

    std::string durability() const { return sw_pool_durability_text(pool_); }

    // The address of a ref while the pool is open; null for 0.
    template <typename T> T *direct(ref at) const {
        void *place = sw_direct(pool_, at);
        if (place == nullptr && at != 0) {
            throw error(SW_INVALID, sw_error_text());
        }
        return static_cast<T *>(place);
    }

    void persist(const void *address, std::size_t bytes) const {
        check(sw_persist(pool_, address, bytes));
    }
    void flush(const void *address, std::size_t bytes) const {
        check(sw_flush(pool_, address, bytes));
    }
    void drain() const { check(sw_drain(pool_)); }

    // Does up to so many steps of a cycle of defragmentation.
    sw_defragmented defragment(std::uint64_t steps) {
        sw_defragmented done{};
        check(sw_defragment(pool_, steps, &done));
        return done;
    }

    sw_pool *handle() const noexcept { return pool_; }

private:
    pool() = default;
    sw_pool *pool_ = nullptr;
};

// A transaction; rolled back when it goes out of scope, unless it was committed.
class transaction {
public:
    explicit transaction(const pool &in, sw_logging logging = SW_REDO) {
        check(sw_tx_begin(in.handle(), logging, &tx_));
        is_open_ = true;
    }
    transaction(const transaction &) = delete;
    transaction &operator=(const transaction &) = delete;
    ~transaction() {
        if (is_open_) {
            sw_tx_abort(tx_);
        }
    }

    // Durable when it returns. If it throws, nothing has changed.
    void commit() {
        is_open_ = false;
        check(sw_tx_commit(tx_));
    }

    void abort() {
        is_open_ = false;
        check(sw_tx_abort(tx_));
    }

    ref alloc(std::uint64_t bytes) {
        ref made = 0;
        check(sw_tx_alloc(tx_, bytes, &made));
        return made;
    }

    ref alloc(std::string_view content) {
        ref made = 0;
        check(sw_tx_alloc_copy(tx_, content.data(), content.size(), &made));
        return made;
    }

    // An object of the type at that place in options.types, all zero or with that content.
    ref make(std::size_t type) {
        ref made = 0;
        check(sw_tx_new(tx_, type, nullptr, &made));
        return made;
    }

    template <typename T> ref make(std::size_t type, const T &content) {
        static_assert(std::is_trivially_copyable<T>::value, "its bytes are its value");
        ref made = 0;
        check(sw_tx_new(tx_, type, &content, &made));
        return made;
    }

    void free(ref at) { check(sw_tx_free(tx_, at)); }

    void write(ref at, std::uint64_t offset, std::string_view data) {
        check(sw_tx_write(tx_, at, offset, data.data(), data.size()));
    }

    std::string read(ref at, std::uint64_t offset, std::size_t bytes) {
        std::string data(bytes, '\0');
        check(sw_tx_read(tx_, at, offset, data.data(), bytes));
        return data;
    }

    void store(ref at, std::uint64_t offset, std::uint64_t value) {
        check(sw_tx_store64(tx_, at, offset, value));
    }

    std::uint64_t load(ref at, std::uint64_t offset) {
        std::uint64_t value = 0;
        check(sw_tx_load64(tx_, at, offset, &value));
        return value;
    }

    // SW_UNDO only: these bytes may be stored by their address from now on.
    void add(ref at, std::uint64_t offset, std::uint64_t bytes) {
        check(sw_tx_add(tx_, at, offset, bytes));
    }

    sw_tx handle() const noexcept { return tx_; }

private:
    sw_tx tx_{};
    bool is_open_ = false;
};

// Runs body(transaction) and commits; again while another thread is in the way.
template <typename Body> void run(const pool &in, sw_logging logging, Body body) {
    for (;;) {
        try {
            transaction tx(in, logging);
            body(tx);
            tx.commit();
            return;
        } catch (const error &refused) {
            if (refused.status() != SW_BUSY) {
                throw;
            }
        }
        std::this_thread::yield();
    }
}

// A thread that keeps a pool small, as long as this lives: it does steps of cycles, and sleeps
// while there is nothing to do. The pool must live longer.
class collector {
public:
    explicit collector(pool &in, std::chrono::microseconds pause = std::chrono::milliseconds(1))
        : thread_([this, &in, pause] { work(in, pause); }) {}
    collector(const collector &) = delete;
    collector &operator=(const collector &) = delete;
    ~collector() {
        is_over_ = true;
        thread_.join();
    }

    // What it has done so far.
    sw_defragmented done() const {
        std::lock_guard<std::mutex> held(lock_);
        return done_;
    }

    // Why it has stopped; empty while it works.
    std::string failure() const {
        std::lock_guard<std::mutex> held(lock_);
        return failure_;
    }

private:
    void work(pool &in, std::chrono::microseconds pause) {
        while (!is_over_) {
            sw_defragmented done{};
            const int status = sw_defragment(in.handle(), 16, &done);
            {
                std::lock_guard<std::mutex> held(lock_);
                if (status == SW_OK) {
                    done_ = done;
                } else if (status != SW_NO_ROOM && status != SW_BUSY) {
                    failure_ = sw_error_text();
                    return;
                }
            }
            if (status != SW_OK || done.state != SW_DEFRAGMENT_WORKS) {
                std::this_thread::sleep_for(pause);
            }
        }
    }

    mutable std::mutex lock_;
    sw_defragmented done_{};
    std::string failure_;
    std::atomic<bool> is_over_{false};
    std::thread thread_; // the last one, as it uses the others
};

namespace detail {

template <typename Get> std::optional<std::string> value_of(Get get) {
    std::string value(64, '\0');
    for (;;) {
        std::size_t bytes = 0;
        const int status = get(value.data(), value.size(), &bytes);
        if (status == SW_SMALL) {
            value.resize(bytes);
            continue;
        }
        if (!check(status)) {
            return std::nullopt;
        }
        value.resize(bytes);
        return value;
    }
}

} // namespace detail

// A map from bytes to bytes, in no order. A transaction passed to a call makes that part of it.
class map {
public:
    // Opens the map at `at`; makes it there if those SW_MAP_BYTES bytes are zero.
    map(const pool &in, ref at) : pool_(in.handle()), at_(at) {
        if (sw_map_open(pool_, at_) == SW_NO_MAP) {
            check(sw_map_create(pool_, at_));
        }
        check(sw_map_open(pool_, at_));
    }

    std::optional<std::string> get(std::string_view key) const {
        return detail::value_of([&](char *into, std::size_t room, std::size_t *bytes) {
            return sw_map_get(pool_, at_, key.data(), key.size(), into, room, bytes);
        });
    }

    std::optional<std::string> get(transaction &tx, std::string_view key) const {
        return detail::value_of([&](char *into, std::size_t room, std::size_t *bytes) {
            return sw_tx_map_get(tx.handle(), at_, key.data(), key.size(), into, room, bytes);
        });
    }

    // True if the key was there before.
    bool put(std::string_view key, std::string_view value) {
        int was = 0;
        check(sw_map_put(pool_, at_, key.data(), key.size(), value.data(), value.size(), &was));
        return was != 0;
    }

    bool put(transaction &tx, std::string_view key, std::string_view value) {
        int was = 0;
        check(sw_tx_map_put(tx.handle(), at_, key.data(), key.size(), value.data(), value.size(),
                            &was));
        return was != 0;
    }

    // True if the key was there.
    bool remove(std::string_view key) {
        return check(sw_map_remove(pool_, at_, key.data(), key.size()));
    }

    bool remove(transaction &tx, std::string_view key) {
        return check(sw_tx_map_remove(tx.handle(), at_, key.data(), key.size()));
    }

    std::uint64_t count() const {
        std::uint64_t found = 0;
        check(sw_map_count(pool_, at_, &found));
        return found;
    }

    // Calls each(key, value) with all that is there.
    template <typename Each> void for_each(Each each) const {
        struct holder {
            sw_cursor *cursor = nullptr;
            ~holder() { sw_cursor_free(cursor); }
        } held;
        check(sw_map_cursor(pool_, at_, &held.cursor));
        const void *key = nullptr, *value = nullptr;
        std::size_t key_bytes = 0, value_bytes = 0;
        while (check(sw_cursor_next(held.cursor, &key, &key_bytes, &value, &value_bytes))) {
            each(std::string_view(static_cast<const char *>(key), key_bytes),
                 std::string_view(static_cast<const char *>(value), value_bytes));
        }
    }

    void check_all() const { check(sw_map_check(pool_, at_)); }

private:
    sw_pool *pool_;
    ref at_;
};

// A map from numbers to numbers, in order.
class ordered_map {
public:
    using entry = std::pair<std::uint64_t, std::uint64_t>;

    // Opens the map at `at`; makes it there if those SW_OMAP_BYTES bytes are zero.
    ordered_map(const pool &in, ref at) : pool_(in.handle()), at_(at) {
        if (sw_omap_open(pool_, at_) == SW_NO_MAP) {
            check(sw_omap_create(pool_, at_));
        }
        check(sw_omap_open(pool_, at_));
    }

    std::optional<std::uint64_t> get(std::uint64_t key) const {
        std::uint64_t value = 0;
        if (!check(sw_omap_get(pool_, at_, key, &value))) {
            return std::nullopt;
        }
        return value;
    }

    std::optional<std::uint64_t> get(transaction &tx, std::uint64_t key) const {
        std::uint64_t value = 0;
        if (!check(sw_tx_omap_get(tx.handle(), at_, key, &value))) {
            return std::nullopt;
        }
        return value;
    }

    // True if the key was there before.
    bool put(std::uint64_t key, std::uint64_t value) {
        int was = 0;
        check(sw_omap_put(pool_, at_, key, value, &was));
        return was != 0;
    }

    bool put(transaction &tx, std::uint64_t key, std::uint64_t value) {
        int was = 0;
        check(sw_tx_omap_put(tx.handle(), at_, key, value, &was));
        return was != 0;
    }

    // True if the key was there.
    bool remove(std::uint64_t key) { return check(sw_omap_remove(pool_, at_, key)); }
    bool remove(transaction &tx, std::uint64_t key) {
        return check(sw_tx_omap_remove(tx.handle(), at_, key));
    }

    std::uint64_t count() const {
        std::uint64_t found = 0;
        check(sw_omap_count(pool_, at_, &found));
        return found;
    }

    // The entries whose keys are first to last, in order.
    std::vector<entry> range(std::uint64_t first, std::uint64_t last) const {
        std::vector<entry> found;
        sw_entry part[64];
        std::size_t count = 0;
        while (first <= last && check(sw_omap_range(pool_, at_, first, last, part, 64, &count))) {
            for (std::size_t place = 0; place < count; ++place) {
                found.emplace_back(part[place].key, part[place].value);
            }
            if (part[count - 1].key == last) {
                break;
            }
            first = part[count - 1].key + 1;
        }
        return found;
    }

    void check_all() const { check(sw_omap_check(pool_, at_)); }

private:
    sw_pool *pool_;
    ref at_;
};

} // namespace seawall

#endif
