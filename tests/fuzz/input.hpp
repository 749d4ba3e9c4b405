// Converts a fuzzer's input to bytes and to text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// No header of libFuzzer declares this function. Each target defines it and returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace roll::fuzz {

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
    return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

}  // namespace roll::fuzz
