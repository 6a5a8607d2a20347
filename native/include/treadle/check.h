// A small test harness: cases that register themselves, checks that report values. Another process watches the cases.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace treadle::check {

struct Case {
    std::string name;
    std::function<void()> body;
};

std::vector<Case>& cases();

// add() registers a case. It returns a value so that a static variable's initialiser can call it.
inline bool add(std::string name, std::function<void()> body) {
    cases().push_back({std::move(name), std::move(body)});
    return true;
}

// add_for_each() registers the case once for each number of workers.
inline bool add_for_each(const std::string& name, std::vector<int> counts, const std::function<void(int)>& body) {
    for (const int count : counts) {
        add(name + "/" + std::to_string(count), [body, count] { body(count); });
    }
    return true;
}

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <typename A, typename B>
void equal(const char* file, int line, const char* text, const A& expected, const B& actual) {
    if (expected == actual) return;
    std::ostringstream out;
    out << text << ": expected " << expected << ", got " << actual;
    fail(file, line, out.str());
}

template <typename Error>
std::string expect_throw(const char* file, int line, const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    fail(file, line, "nothing was thrown");
}

}  // namespace treadle::check

#define TREADLE_TEST(name)                                                                   \
    static void name();                                                                   \
    [[maybe_unused]] static const bool name##_added = ::treadle::check::add(#name, name);    \
    static void name()
// A case that runs with 1, 2, 4, 8 and 16 workers; the body reads `workers`.
#define TREADLE_TEST_WORKERS(name)                                                                       \
    static void name(int workers);                                                                    \
    [[maybe_unused]] static const bool name##_added =                                                 \
        ::treadle::check::add_for_each(#name, {1, 2, 4, 8, 16}, name);                                   \
    static void name(int workers)
#define CHECK(condition) \
    if (!(condition)) ::treadle::check::fail(__FILE__, __LINE__, "false: " #condition)
#define CHECK_EQUAL(expected, actual) ::treadle::check::equal(__FILE__, __LINE__, #actual, expected, actual)
#define CHECK_THROWS(error, ...) ::treadle::check::expect_throw<error>(__FILE__, __LINE__, [&] { __VA_ARGS__; })
