// prefetch(): starts loading arrays into the caches before they are used.
#pragma once

#include <cstddef>
#include <span>

namespace treadle {

inline constexpr std::size_t kCacheLineBytes = 64;

// prefetch() starts loading the elements of the arrays, and does not wait for them. Code that uses array after array
// waits for each in turn; loads that were started together overlap.
template <typename... Arrays>
void prefetch(const Arrays&... arrays) {
    const auto start = [](std::span<const std::byte> bytes) {
        for (std::size_t at = 0; at < bytes.size(); at += kCacheLineBytes) __builtin_prefetch(bytes.data() + at);
    };
    (start(std::as_bytes(std::span(arrays.data(), arrays.size()))), ...);
}

}  // namespace treadle
