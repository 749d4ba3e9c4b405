#include "worker/chat/arena.hpp"

#include <algorithm>
#include <cstring>

namespace roll::chat {
namespace {

constexpr std::size_t kBlockSize = std::size_t{64} << 10U;
constexpr std::size_t kAlign = alignof(std::max_align_t);

}  // namespace

std::byte* Arena::take(std::size_t count, std::size_t size) {
    if (count > limit_ / size || count * size > limit_ - taken_)
        refuse("the template needs more than " + std::to_string(limit_ >> 20U) +
               " MiB of memory for one conversation, which is the limit; shorten the conversation");
    const std::size_t bytes = (count * size + kAlign - 1) / kAlign * kAlign;
    taken_ = std::min(limit_, taken_ + bytes);
    if (bytes > left_) {
        // Leave free space after the allocation, so that join() can extend it in place.
        const std::size_t block = std::max(2 * bytes, kBlockSize);
        blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
        next_ = blocks_.back().get();
        left_ = block;
    }
    std::byte* const made = next_;
    end_ = made + count * size;
    next_ += bytes;
    left_ -= bytes;
    return made;
}

std::string_view Arena::copy(std::string_view text) {
    char* const made = make<char>(text.size());
    if (!text.empty()) std::memcpy(made, text.data(), text.size());
    return {made, text.size()};
}

std::string_view Arena::join(std::string_view text, std::string_view more) {
    const auto padding = static_cast<std::size_t>(next_ - end_);
    const bool is_newest = reinterpret_cast<const std::byte*>(text.data()) + text.size() == end_;
    if (is_newest && more.size() <= padding + left_) {
        std::byte* const behind = end_;
        // The padding holds the first bytes of `more`; allocate only the rest of `more`.
        take(more.size() - std::min(more.size(), padding), 1);
        end_ = behind + more.size();
        if (!more.empty()) std::memcpy(behind, more.data(), more.size());
        return {text.data(), text.size() + more.size()};
    }
    char* const made = make<char>(text.size() + more.size());
    if (!text.empty()) std::memcpy(made, text.data(), text.size());
    if (!more.empty()) std::memcpy(made + text.size(), more.data(), more.size());
    return {made, text.size() + more.size()};
}

}  // namespace roll::chat
