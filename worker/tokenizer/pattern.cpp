#include "worker/tokenizer/pattern.hpp"

#include <algorithm>

namespace roll::tokenizer {
namespace {

constexpr std::size_t kNotAscii = 128;

std::size_t first_byte(char byte) {
    return std::min<std::size_t>(static_cast<std::uint8_t>(byte), kNotAscii);
}

}  // namespace

bool CharacterSet::holds(char32_t code, const PropertyTable& table) const {
    if (code < 128) return ascii[code];
    const auto in = [code](const auto& range) {
        return code >= range.first && code <= range.second;
    };
    const bool member = (table.of(code) & properties) != 0 ||
                        (!ranges.empty() && std::any_of(ranges.begin(), ranges.end(), in));
    return member != negated;
}

bool Pattern::take(const CharacterSet& set, const char*& at) const {
    if (const auto byte = static_cast<std::uint8_t>(*at); byte < 128) {
        at += set.ascii[byte];
        return set.ascii[byte];
    }
    const char* after = at;
    if (!set.holds(next_code_point(after), *table_)) return false;
    at = after;
    return true;
}

// Matches as many characters of the set as possible, then gives them up one by one until the rest
// of the expression matches.
const char* Pattern::run_set(const PatternNode& node, const char* at, const char* end) const {
    const CharacterSet& set = sets_[node.set];
    const char* least = at;
    std::uint32_t count = 0;
    while (count < node.max && at < end && take(set, at))
        if (++count == node.min) least = at;
    if (count < node.min) return nullptr;
    if (node.possessive || nodes_[node.next].kind == PatternNode::Kind::Accept)
        return run(node.next, at, end);
    while (true) {
        if (const char* match = run(node.next, at, end)) return match;
        if (at == least) return nullptr;
        do --at;
        while ((static_cast<std::uint8_t>(*at) & 0xC0) == 0x80);
    }
}

// Returns the end of a match from this node on; nullptr if there is no match. The size of the
// expression limits the recursion, because no node leads back to itself.
const char* Pattern::run(std::uint32_t index, const char* at, const char* end) const {
    while (true) {
        const PatternNode& node = nodes_[index];
        switch (node.kind) {
            case PatternNode::Kind::Accept: return at;
            case PatternNode::Kind::Set:
                if (node.min != 1 || node.max != 1) return run_set(node, at, end);
                if (at == end || !take(sets_[node.set], at)) return nullptr;
                break;
            case PatternNode::Kind::Choice:
                for (const std::uint32_t branch : node.branches)
                    if (const char* match = run(branch, at, end)) return match;
                return nullptr;
            case PatternNode::Kind::Look:
                if ((run(node.branches[0], at, end) == nullptr) != node.negative) return nullptr;
                break;
            case PatternNode::Kind::Jump: break;
        }
        index = node.next;
    }
}

std::size_t Pattern::match_at(std::string_view text, std::size_t at) const {
    const char* begin = text.data() + at;
    const char* end = text.data() + text.size();
    for (const std::uint32_t branch : by_first_byte_[first_byte(*begin)]) {
        if (const char* match = run(branch, begin, end))
            return match == begin ? kNone : static_cast<std::size_t>(match - text.data());
    }
    return kNone;
}

// Marks in `first` the bytes with which a match of the node can start. Marks all bytes if the match
// can be empty.
void Pattern::first_bytes(std::uint32_t index, std::array<bool, 129>& first) const {
    const PatternNode& node = nodes_[index];
    switch (node.kind) {
        case PatternNode::Kind::Accept: first.fill(true); return;
        case PatternNode::Kind::Set:
            for (std::size_t byte = 0; byte < kNotAscii; ++byte)
                first[byte] = first[byte] || sets_[node.set].ascii[byte];
            first[kNotAscii] = true;
            if (node.min == 0) first_bytes(node.next, first);
            return;
        case PatternNode::Kind::Choice:
            for (const std::uint32_t branch : node.branches) first_bytes(branch, first);
            return;
        case PatternNode::Kind::Look:
        case PatternNode::Kind::Jump: first_bytes(node.next, first); return;
    }
}

void Pattern::index_first_bytes() {
    for (const std::uint32_t branch : nodes_[root_].branches) {
        std::array<bool, 129> first{};
        first_bytes(branch, first);
        for (std::size_t byte = 0; byte <= kNotAscii; ++byte)
            if (first[byte]) by_first_byte_[byte].push_back(branch);
    }
}

}  // namespace roll::tokenizer
