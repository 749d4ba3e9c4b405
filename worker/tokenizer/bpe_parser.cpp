// Implements Bpe::parse() and the functions that fill its tables.
#include <bit>

#include <fmt/format.h>

#include "worker/tokenizer/bpe.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

constexpr std::uint32_t kIdsMax = 1U << 22;

tl::unexpected<Error> refuse_bpe(const std::string& what) {
    return fail(ErrorCode::InvalidArgument, "model BPE: " + what);
}

// Parses one merge, which is "left right" or ["left", "right"].
Result<std::pair<std::string_view, std::string_view>> parse_merge(const Json& json) {
    if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
        return std::pair<std::string_view, std::string_view>(json[0].get_ref<const std::string&>(),
                                                             json[1].get_ref<const std::string&>());
    }
    if (json.is_string()) {
        const std::string_view text = json.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
            return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    return refuse_bpe("a merge is not a pair of tokens: " + dump(json).substr(0, 60));
}

bool is_visible(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

const std::array<std::string, 256>& visible_bytes() {
    static const std::array<std::string, 256> characters = [] {
        std::array<std::string, 256> result;
        char32_t next = 256;
        for (int byte = 0; byte < 256; ++byte)
            append_utf8(result[byte], is_visible(byte) ? static_cast<char32_t>(byte) : next++);
        return result;
    }();
    return characters;
}

std::optional<std::string> spelled_bytes(const std::string& token) {
    static const std::array<int, 512> byte_of = [] {
        std::array<int, 512> result;
        result.fill(-1);
        for (int byte = 0; byte < 256; ++byte) {
            const char* at = visible_bytes()[byte].data();
            result[next_code_point(at)] = byte;
        }
        return result;
    }();
    std::string bytes;
    for (const char* at = token.data(); at < token.data() + token.size();) {
        const char32_t code = next_code_point(at);
        if (code >= byte_of.size() || byte_of[code] < 0) return std::nullopt;
        bytes.push_back(static_cast<char>(byte_of[code]));
    }
    return bytes;
}

MergeTable::MergeTable(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots_.size()));
}

void MergeTable::put(std::uint32_t left, std::uint32_t right, Merge merge) {
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | right;
    std::size_t at = place(pair);
    while (slots_[at].pair != kFree && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {pair, merge};
}

Result<void> Bpe::read_vocabulary(const Json& json) {
    if (!json.is_object()) return refuse_bpe("vocab must be an object; copy the file again");
    ids_.reserve(json.size());
    for (const auto& [token, id] : json.items()) {
        if (!holds<std::uint32_t>(id) || id.get<std::uint32_t>() >= kIdsMax)
            return refuse_bpe("the id of \"" + token + "\" is not a number below " +
                              std::to_string(kIdsMax));
        const auto entry = ids_.emplace(token, id.get<std::uint32_t>()).first;
        if (tokens_.size() <= entry->second) tokens_.resize(entry->second + 1);
        if (tokens_[entry->second] != nullptr)
            return refuse_bpe("\"" + token + "\" has the same id as \"" + *tokens_[entry->second] +
                              "\"");
        tokens_[entry->second] = &entry->first;
    }
    return {};
}

Result<void> Bpe::read_merges(const Json& json) {
    if (!json.is_array()) return refuse_bpe("merges must be a list; copy the file again");
    merges_ = MergeTable(json.size());
    std::uint32_t rank = 0;
    std::string whole;
    for (const Json& entry : json) {
        ROLL_TRY(const auto merge, parse_merge(entry));
        whole.assign(merge.first).append(merge.second);
        const auto left = id_of(merge.first);
        const auto right = id_of(merge.second);
        const auto result = id_of(whole);
        if (!left || !right || !result)
            return refuse_bpe("the vocabulary lacks one of the tokens of the merge " +
                              dump(entry).substr(0, 60));
        merges_.put(*left, *right, {rank++, *result});
    }
    return {};
}

void Bpe::index_words(bool byte_level) {
    byte_level_ = byte_level;
    for (int byte = 0; byte < 256; ++byte) {
        const auto ascii = std::string(1, static_cast<char>(byte));
        const auto symbol = id_of(byte_level ? visible_bytes()[byte] : ascii);
        const auto fallback = id_of(fmt::format("<0x{:02X}>", byte));
        bytes_[byte] = symbol ? static_cast<std::int64_t>(*symbol) : -1;
        fallback_[byte] = fallback ? static_cast<std::int64_t>(*fallback) : -1;
    }
}

// Returns true if no token contains U+2581 after another character. If so, text may be cut before
// each U+2581 that follows another character.
bool Bpe::never_merges_over_spaces() const {
    if (!ids_.contains(kVisibleSpace)) return false;
    for (const auto& [token, id] : ids_) {
        std::size_t at = 0;
        while (token.compare(at, kVisibleSpace.size(), kVisibleSpace) == 0)
            at += kVisibleSpace.size();
        if (token.find(kVisibleSpace, at) != std::string::npos) return false;
    }
    return true;
}

Result<Bpe> Bpe::parse(const Json& json, bool byte_level) {
    JsonReader reader(json, "model BPE");
    reader.get_or<std::string>("type", "BPE");
    Bpe bpe;
    ROLL_TRY_VOID(bpe.read_vocabulary(reader.raw("vocab")));
    ROLL_TRY_VOID(bpe.read_merges(reader.raw("merges")));
    if (reader.get_or("dropout", 0.0) != 0.0)
        return refuse_bpe("dropout is not supported; set it to null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (!reader.get_or<std::string>(affix, "").empty())
            return refuse_bpe(std::string(affix) + " is not supported");
    bpe.byte_fallback_ = reader.get_or("byte_fallback", false);
    bpe.fuse_unknown_ = reader.get_or("fuse_unk", false);
    if (const auto unknown = reader.get_or<std::string>("unk_token", ""); !unknown.empty()) {
        bpe.unknown_ = bpe.id_of(unknown);
        if (!bpe.unknown_) return refuse_bpe("unk_token " + unknown + " is not in the vocabulary");
    }
    bpe.index_words(byte_level);
    const bool whole_words = reader.get_or("ignore_merges", false);
    for (const auto& [token, id] : bpe.ids_) {
        if (!whole_words) break;
        if (!byte_level) {
            bpe.words_.emplace(token, id);
        } else if (const auto bytes = spelled_bytes(token)) {
            bpe.words_.emplace(*bytes, id);
        }
    }
    bpe.cut_at_spaces_ = !byte_level && !whole_words && bpe.never_merges_over_spaces();
    ROLL_TRY_VOID(reader.finish());
    return bpe;
}

}  // namespace roll::tokenizer
