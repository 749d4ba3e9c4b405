#include "worker/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/hash.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

constexpr std::int32_t kGone = -2;
// Largest number of symbols of a word for which merge_short() is used. It scans all pairs for the
// next merge. For more symbols, merge_long() finds the next merge with a heap.
constexpr std::size_t kShortWord = 40;
constexpr std::size_t kSeenWords = 1U << 15;
constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

std::uint64_t mix(std::string_view word) {
    std::uint64_t parts[4] = {};
    std::memcpy(parts, word.data(), word.size());
    std::uint64_t hash = word.size();
    for (const std::uint64_t part : parts) {
        hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

BpeWork::BpeWork() : seen_(kSeenWords) {}

const Merge* MergeTable::find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | right;
    for (std::size_t at = place(pair);; at = (at + 1) & (slots_.size() - 1)) {
        if (slots_[at].pair == pair) return &slots_[at].merge;
        if (slots_[at].pair == kFree) return nullptr;
    }
}

void Bpe::encode(std::string_view word, BpeWork& work, std::vector<std::uint32_t>& out) const {
    if (!cut_at_spaces_) return encode_part(word, work, out);
    while (!word.empty()) {
        // Cut the word before each U+2581 that follows another character. This does not change the
        // result, because no token contains a U+2581 after another character.
        std::size_t cut = 0;
        while (word.substr(cut).starts_with(kVisibleSpace)) cut += kVisibleSpace.size();
        cut = std::min(word.find(kVisibleSpace, cut), word.size());
        encode_part(word.substr(0, cut), work, out);
        word.remove_prefix(cut);
    }
}

void Bpe::encode_part(std::string_view part, BpeWork& work, std::vector<std::uint32_t>& out) const {
    BpeWork::Seen* seen = nullptr;
    if (part.size() <= BpeWork::kWordMax) {
        seen = &work.seen_[mix(part) & (kSeenWords - 1)];
        if (seen->size == part.size() &&
            std::memcmp(seen->word.data(), part.data(), part.size()) == 0) {
            out.insert(out.end(), seen->ids.begin(), seen->ids.begin() + seen->count);
            return;
        }
    }
    work.ids_.clear();
    const auto whole = words_.empty() ? words_.end() : words_.find(part);
    if (whole != words_.end()) {
        work.ids_.push_back(whole->second);
    } else {
        spell(part, work.ids_);
        if (work.ids_.size() <= kShortWord) {
            merge_short(work);
        } else {
            merge_long(work);
        }
    }
    out.insert(out.end(), work.ids_.begin(), work.ids_.end());
    if (seen == nullptr || work.ids_.size() > BpeWork::kIdsMax) return;
    seen->size = static_cast<std::uint8_t>(part.size());
    seen->count = static_cast<std::uint8_t>(work.ids_.size());
    std::copy(part.begin(), part.end(), seen->word.begin());
    std::copy(work.ids_.begin(), work.ids_.end(), seen->ids.begin());
}

// Writes one id per symbol of the word. In byte-level vocabularies, a symbol is a byte. In other
// vocabularies, it is a character.
void Bpe::spell(std::string_view word, std::vector<std::uint32_t>& ids) const {
    int unknown = 0;  // number of unknown symbols that are not yet written
    const auto flush = [&] {
        if (unknown > 0) ids.push_back(*unknown_);
        unknown = 0;
    };
    for (std::size_t at = 0; at < word.size();) {
        const auto byte = static_cast<std::uint8_t>(word[at]);
        const std::size_t size = byte_level_ ? 1 : character_size(word[at]);
        std::int64_t id = -1;
        if (size == 1) {
            id = bytes_[byte];
        } else if (const auto found = ids_.find(word.substr(at, size)); found != ids_.end()) {
            id = found->second;
        }
        if (id >= 0) {
            flush();
            ids.push_back(static_cast<std::uint32_t>(id));
        } else {
            spell_missing(byte_level_ ? visible_bytes()[byte] : word.substr(at, size), unknown,
                          ids);
        }
        at += size;
    }
    flush();
}

// Handles a symbol that the vocabulary lacks. If all its bytes have byte tokens, appends these.
// Otherwise, counts the symbol in `unknown`. The caller appends the unknown token before the next
// known symbol. As in the tokenizers package, byte tokens that follow the unknown symbol come
// before it.
void Bpe::spell_missing(std::string_view symbol, int& unknown,
                        std::vector<std::uint32_t>& ids) const {
    const auto fallback = [this](char byte) { return fallback_[static_cast<std::uint8_t>(byte)]; };
    if (byte_fallback_ &&
        std::all_of(symbol.begin(), symbol.end(), [&](char byte) { return fallback(byte) >= 0; })) {
        for (const char byte : symbol) ids.push_back(static_cast<std::uint32_t>(fallback(byte)));
        return;
    }
    if (!unknown_) return;
    if (unknown > 0 && !fuse_unknown_) ids.push_back(*unknown_);
    unknown = 1;
}

void Bpe::merge_short(BpeWork& work) const {
    std::vector<std::uint32_t>& ids = work.ids_;
    std::vector<Merge>& pairs = work.merges_;  // merges_[i]: the merge of ids[i] and ids[i + 1]
    constexpr Merge none{.rank = kNoRank};
    const auto pair_at = [&](std::size_t i) {
        const Merge* merge = merges_.find(ids[i], ids[i + 1]);
        return merge == nullptr ? none : *merge;
    };
    pairs.clear();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) pairs.push_back(pair_at(i));
    while (!pairs.empty()) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < pairs.size(); ++i)
            if (pairs[i].rank < pairs[best].rank) best = i;
        if (pairs[best].rank == kNoRank) return;
        ids[best] = pairs[best].id;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(best));
        if (best > 0) pairs[best - 1] = pair_at(best - 1);
        if (best < pairs.size()) pairs[best] = pair_at(best);
    }
}

void Bpe::merge_long(BpeWork& work) const {
    auto& symbols = work.symbols_;
    auto& heap = work.heap_;
    const auto later = [](const BpeWork::Candidate& a, const BpeWork::Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
    };
    const auto merge_of = [&](std::int32_t left) -> const Merge* {
        const std::int32_t right = left < 0 ? -1 : symbols[left].next;
        return right < 0 ? nullptr : merges_.find(symbols[left].id, symbols[right].id);
    };
    const auto push = [&](std::int32_t left) {
        if (const Merge* merge = merge_of(left)) {
            heap.push_back({merge->rank, left, merge->id});
            return true;
        }
        return false;
    };
    const auto size = static_cast<std::int32_t>(work.ids_.size());
    symbols.clear();
    heap.clear();
    for (std::int32_t i = 0; i < size; ++i)
        symbols.push_back({work.ids_[i], i - 1, i + 1 < size ? i + 1 : -1});
    for (std::int32_t i = 0; i < size; ++i) push(i);
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), later);
        const BpeWork::Candidate top = heap.back();
        heap.pop_back();
        auto& left = symbols[top.place];
        const Merge* merge = merge_of(top.place);
        // the entry is outdated: one of its symbols was merged after the entry was made
        if (merge == nullptr || merge->id != top.id) continue;
        auto& right = symbols[left.next];
        left.id = top.id;
        left.next = right.next;
        right.next = kGone;
        if (left.next >= 0) symbols[left.next].previous = top.place;
        if (push(left.previous)) std::push_heap(heap.begin(), heap.end(), later);
        if (push(top.place)) std::push_heap(heap.begin(), heap.end(), later);
    }
    work.ids_.clear();
    for (const auto& symbol : symbols)
        if (symbol.next != kGone) work.ids_.push_back(symbol.id);
}

std::optional<std::uint32_t> Bpe::id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Bpe::token_of(std::uint32_t id) const {
    return id < tokens_.size() ? tokens_[id] : nullptr;
}

}  // namespace roll::tokenizer
