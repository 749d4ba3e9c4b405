#include "common/shared_text.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace roll {
namespace {

// The functions below first compare whole blocks of this size, because documents are long.
constexpr std::size_t kBlock = 64;

std::size_t common_start(std::string_view a, std::string_view b) {
    const std::size_t most = std::min(a.size(), b.size());
    std::size_t count = 0;
    while (count + kBlock <= most && std::memcmp(a.data() + count, b.data() + count, kBlock) == 0)
        count += kBlock;
    while (count < most && a[count] == b[count]) ++count;
    return count;
}

std::size_t common_end(std::string_view a, std::string_view b) {
    const std::size_t most = std::min(a.size(), b.size());
    const char* const a_end = a.data() + a.size();
    const char* const b_end = b.data() + b.size();
    std::size_t count = 0;
    while (count + kBlock <= most &&
           std::memcmp(a_end - count - kBlock, b_end - count - kBlock, kBlock) == 0)
        count += kBlock;
    while (count < most && a[a.size() - 1 - count] == b[b.size() - 1 - count]) ++count;
    return count;
}

}  // namespace

SharedText& SharedText::operator=(std::string text) {
    *this = SharedText();
    own_ = std::move(text);
    return *this;
}

std::string SharedText::text() const {
    std::string text;
    text.reserve(size());
    if (shared_) text.append(*shared_, 0, head_);
    text += own_;
    if (shared_) text.append(*shared_, shared_->size() - tail_);
    return text;
}

void SharedText::share_with(const SharedText& other) {
    const std::string whole = text();
    const auto part_of = [&](std::shared_ptr<const std::string> base) {
        SharedText made;
        made.head_ = common_start(whole, *base);
        const std::string_view rest = std::string_view(whole).substr(made.head_);
        made.tail_ = common_end(rest, std::string_view(*base).substr(made.head_));
        made.own_ = rest.substr(0, rest.size() - made.tail_);
        made.shared_ = std::move(base);
        return made;
    };
    SharedText best =
        part_of(other.shared_ ? other.shared_ : std::make_shared<const std::string>(other.own_));
    // Prefer the text that `other` already shares, because sharing it needs no new copy. Copy and
    // share the whole text of `other` only if own_ becomes much smaller: by more than an eighth of
    // this object's text.
    const std::size_t eighth = whole.size() / 8;
    if (other.shared_ && best.own_.size() > eighth) {
        SharedText closer = part_of(std::make_shared<const std::string>(other.text()));
        if (closer.own_.size() + eighth < best.own_.size()) best = std::move(closer);
    }
    if (2 * best.own_.size() <= whole.size()) *this = std::move(best);
}

}  // namespace roll
