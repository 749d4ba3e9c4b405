// An arena: the memory of one rendering, or of the constants of one template. All this memory is
// released together.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace roll::chat {

// The exception of this folder. It means that a template cannot be parsed or rendered. template.cpp
// converts it to an Error. `line` is a line number in the template; 0 means the statement that is
// being rendered.
struct Failure {
    int line = 0;
    std::string message;
};

[[noreturn]] inline void refuse(std::string message, int line = 0) {
    throw Failure{line, std::move(message)};
}

class Arena {
  public:
    // Makes an arena of at most `limit` bytes. An allocation beyond this limit throws Failure.
    explicit Arena(std::size_t limit) : limit_(limit) {}

    // Returns uninitialized memory for `count` elements. It is valid as long as the arena exists.
    template <class T>
    T* make(std::size_t count) {
        static_assert(std::is_trivially_destructible_v<T>);
        return reinterpret_cast<T*>(take(count, sizeof(T)));
    }
    std::string_view copy(std::string_view text);
    // Returns `text` followed by `more`. If `text` is at the end of the newest allocation, appends
    // `more` in place. A text that is built by many calls is therefore not copied at each call.
    std::string_view join(std::string_view text, std::string_view more);
    template <class T>
    std::span<const T> copy(const std::vector<T>& items) {
        T* made = make<T>(items.size());
        std::uninitialized_copy(items.begin(), items.end(), made);
        return {made, items.size()};
    }

  private:
    std::byte* take(std::size_t count, std::size_t size);

    std::size_t limit_;
    std::size_t taken_ = 0;
    std::size_t left_ = 0;
    std::byte* next_ = nullptr;
    std::byte* end_ = nullptr;  // end of the newest allocation, without its padding
    std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

}  // namespace roll::chat
