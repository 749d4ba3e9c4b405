// A view of token ids in memory. The ids have one of the element types of token files. The memory
// must outlive the view.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace roll::data {

// Element types of token files. The numbers are their codes in an .idx.
enum class TokenType : std::uint8_t { Uint8 = 1, Int16 = 3, Int32 = 4, Int64 = 5, Uint16 = 8 };

constexpr std::size_t size_of(TokenType type) {
    switch (type) {
        case TokenType::Uint8: return 1;
        case TokenType::Int16:
        case TokenType::Uint16: return 2;
        case TokenType::Int32: return 4;
        case TokenType::Int64: return 8;
    }
    return 1;
}

// Returns ~id, the number that stands for a context-only token (part of a prompt, without loss) in
// a dataset of prompts and completions. This number is negative. The function is its own inverse.
constexpr std::int64_t only_read(std::int64_t id) { return ~id; }

// margin_tokens() stores the margin of a pair as two tokens after the rejected answer. margin_of()
// reads the margin from these tokens. The first token is -2 for a negative margin, else -1. The
// second token is the bitwise complement of the absolute value's float bits. Both tokens are
// negative, so they do not count in the loss.
inline constexpr std::size_t kMarginTokens = 2;
inline std::array<std::int32_t, kMarginTokens> margin_tokens(float margin) {
    return {std::signbit(margin) ? -2 : -1, ~std::bit_cast<std::int32_t>(std::abs(margin))};
}
inline float margin_of(std::int64_t sign, std::int64_t bits) {
    const auto size = std::bit_cast<float>(~static_cast<std::int32_t>(bits));
    return sign == -2 ? -size : size;
}

class Tokens {
  public:
    Tokens() = default;
    Tokens(const std::byte* data, std::size_t size, TokenType type)
        : data_(data),
          size_(size),
          type_(type) {}

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const std::byte* data() const { return data_; }
    TokenType type() const { return type_; }

    // Returns the stored number. The caller must reject numbers that are not ids of the vocabulary,
    // for example negative numbers.
    std::int64_t operator[](std::size_t index) const {
        switch (type_) {
            case TokenType::Uint8: return load<std::uint8_t>(index);
            case TokenType::Int16: return load<std::int16_t>(index);
            case TokenType::Int32: return load<std::int32_t>(index);
            case TokenType::Int64: return load<std::int64_t>(index);
            case TokenType::Uint16: return load<std::uint16_t>(index);
        }
        return -1;
    }

    // Returns `count` tokens from `offset` on. Requires offset + count <= size().
    Tokens subspan(std::size_t offset, std::size_t count) const {
        return {data_ + offset * size_of(type_), count, type_};
    }
    Tokens first(std::size_t count) const { return subspan(0, count); }
    Tokens subspan(std::size_t offset) const { return subspan(offset, size_ - offset); }

    // Returns the tokens as bytes. Each token must be stored in one byte.
    std::span<const std::uint8_t> bytes() const {
        return {reinterpret_cast<const std::uint8_t*>(data_), size_};
    }

  private:
    template <class T>
    T load(std::size_t index) const {  // copies, because tokens of a file may be unaligned
        T value;
        std::memcpy(&value, data_ + index * sizeof(T), sizeof(T));
        return value;
    }

    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    TokenType type_ = TokenType::Uint8;
};

}  // namespace roll::data
