#include "worker/tokenizer/precompiled.hpp"

#include <utf8proc.h>

#include "common/base64.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

// Grapheme clusters of at least this many bytes are replaced character by character.
constexpr std::size_t kWholeCluster = 6;

std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
        value |= std::uint32_t{static_cast<std::uint8_t>(bytes[at + i])} << 8 * i;
    return value;
}

// Return the fields of a trie unit, as defined in darts-clone's include/darts.h.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

// Returns the size of the text's first grapheme cluster (UAX 29).
std::size_t cluster_size(std::string_view text) {
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    utf8proc_int32_t state = 0;
    auto before = static_cast<utf8proc_int32_t>(next_code_point(at));
    while (at < end) {
        const char* next = at;
        const auto code = static_cast<utf8proc_int32_t>(next_code_point(next));
        if (utf8proc_grapheme_break_stateful(before, code, &state)) break;
        before = code;
        at = next;
    }
    return static_cast<std::size_t>(at - text.data());
}

bool is_plain(char byte) { return byte >= ' ' && byte < 0x7F; }

}  // namespace

Result<Precompiled> Precompiled::parse(std::string_view base64) {
    const auto decoded = from_base64(base64);
    if (!decoded)
        return fail(ErrorCode::Corrupt,
                    "precompiled_charsmap is not base64 text; copy the file again");
    const std::string& bytes = *decoded;
    const std::size_t trie_size = bytes.size() < 4 ? 0 : little_endian(bytes, 0);
    if (trie_size == 0 || trie_size % 4 != 0 || trie_size > bytes.size() - 4)
        return fail(ErrorCode::Corrupt, "precompiled_charsmap is truncated");
    Precompiled map;
    for (std::size_t at = 4; at < 4 + trie_size; at += 4)
        map.trie_.push_back(little_endian(bytes, at));
    map.replacements_ = bytes.substr(4 + trie_size);
    if (valid_prefix(map.replacements_) != map.replacements_.size())
        return fail(ErrorCode::Corrupt,
                    "precompiled_charsmap contains invalid UTF-8; copy the file again");
    return map;
}

std::optional<std::string_view> Precompiled::find(std::string_view text) const {
    std::uint32_t place = offset_of(trie_[0]);
    for (const char letter : text) {
        const auto byte = static_cast<std::uint8_t>(letter);
        place ^= byte;
        if (byte == 0 || place >= trie_.size() || label_of(trie_[place]) != byte) break;
        const bool leaf = has_leaf(trie_[place]);
        place ^= offset_of(trie_[place]);
        if (!leaf) continue;
        if (place >= trie_.size() || value_of(trie_[place]) >= replacements_.size()) break;
        const std::string_view found =
            std::string_view(replacements_).substr(value_of(trie_[place]));
        return found.substr(0, found.find('\0'));
    }
    return std::nullopt;
}

std::size_t Precompiled::head(std::string_view text) const {
    if (text.empty()) return 0;
    const std::size_t size = character_size(text.front()), cluster = cluster_size(text);
    if (cluster > size && cluster < kWholeCluster) return 1;
    return std::max<std::size_t>(1, apply(text.substr(0, size)).size());
}

std::string Precompiled::apply(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    const auto take = [&](std::string_view part, bool or_else_itself) {
        const auto found = find(part);
        if (found || or_else_itself) out += found.value_or(part);
        return found.has_value();
    };
    while (!text.empty()) {
        // Two printable ASCII characters are never in one cluster, so most texts do not need
        // Unicode's cluster rules.
        const bool plain = is_plain(text[0]) && (text.size() == 1 || is_plain(text[1]));
        const std::size_t size = plain ? 1 : cluster_size(text);
        std::string_view cluster = text.substr(0, size);
        text.remove_prefix(size);
        if (size < kWholeCluster && take(cluster, size == 1)) continue;
        for (; size > 1 && !cluster.empty(); cluster.remove_prefix(character_size(cluster[0])))
            take(cluster.substr(0, character_size(cluster[0])), true);
    }
    return out;
}

}  // namespace roll::tokenizer
