#include "worker/tokenizer/ids_end.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace roll::tokenizer {
namespace {

// Scans JSON text from beginning to end. After the first syntax error, every result is empty, and
// ok() returns false.
class Scan {
  public:
    explicit Scan(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}
    bool ok() const { return ok_; }

    // Scan an object or array at the current position. members() calls on_member(key) for each
    // member of the object. elements() calls on_element() for each element of the array. The
    // callback must read or skip the member's or element's value.
    template <class F>
    void members(const F& on_member) {
        if (!take('{') || take('}')) return;
        do {
            const std::string_view key = string();
            if (!need(':')) return;
            on_member(key);
        } while (ok_ && take(','));
        need('}');
    }
    template <class F>
    void elements(const F& on_element) {
        if (!take('[') || take(']')) return;
        do on_element();
        while (ok_ && take(','));
        need(']');
    }

    char next() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
        return at_ < end_ ? *at_ : '\0';
    }
    // Reads the value at the current position. If it is an id, raises `ids_end` to at least the id
    // plus one. If it is not a whole number, skips it.
    void id(std::uint32_t& ids_end) {
        constexpr std::uint32_t kMax = 1U << 30;
        next();
        std::uint32_t value = 0;
        const auto [rest, error] = std::from_chars(at_, end_, value);
        if (error != std::errc() || value > kMax) return skip();
        at_ = rest;
        ids_end = std::max(ids_end, value + 1);
    }
    // Skips the value at the current position.
    void skip() {
        int depth = 0;
        do {
            const char first = next();
            if (first == '"') {
                string();
            } else if (first == '{' || first == '[') {
                ++depth;
                ++at_;
            } else if (first == '}' || first == ']') {
                --depth;
                ++at_;
            } else if (first == ',' || first == ':') {
                ++at_;
            } else {
                word();
            }
        } while (ok_ && depth > 0);
        if (depth < 0) ok_ = false;
    }

  private:
    bool take(char one) {
        if (next() != one) return false;
        ++at_;
        return true;
    }
    bool need(char one) {
        ok_ = ok_ && take(one);
        return ok_;
    }
    // Returns the string at the current position. Does not unescape it, because none of the keys to
    // find contains an escape.
    std::string_view string() {
        if (!need('"')) return {};
        const char* const begin = at_;
        for (; at_ < end_ && *at_ != '"'; ++at_)
            if (*at_ == '\\') ++at_;
        if (at_ >= end_) ok_ = false;
        const std::string_view text(begin, static_cast<std::size_t>(std::min(at_, end_) - begin));
        if (ok_) ++at_;
        return text;
    }
    // Skips a number, true, false or null.
    void word() {
        const char* const begin = at_;
        while (at_ < end_ && std::strchr(" \n\r\t,:]}[{\"", *at_) == nullptr) ++at_;
        if (at_ == begin) ok_ = false;
    }

    const char* at_;
    const char* end_;
    bool ok_ = true;
};

}  // namespace

Result<std::uint32_t> ids_end(std::string_view json) {
    Scan scan(json);
    std::uint32_t end = 0, listed = 0;
    const auto vocabulary = [&](std::string_view key) {
        if (key != "vocab") return scan.skip();
        if (scan.next() == '{') return scan.members([&](std::string_view) { scan.id(end); });
        scan.elements([&] {  // an element is [piece, score]; its index is the piece's id
            scan.skip();
            ++listed;
        });
    };
    const auto added = [&] {
        scan.members([&](std::string_view key) { key == "id" ? scan.id(end) : scan.skip(); });
    };
    if (scan.next() != '{') return fail(ErrorCode::Corrupt, "is not a JSON object");
    scan.members([&](std::string_view key) {
        if (key == "model" && scan.next() == '{') return scan.members(vocabulary);
        if (key == "added_tokens" && scan.next() == '[') return scan.elements(added);
        scan.skip();
    });
    if (!scan.ok() || scan.next() != '\0') return fail(ErrorCode::Corrupt, "is not a JSON object");
    return std::max(end, listed);
}

}  // namespace roll::tokenizer
