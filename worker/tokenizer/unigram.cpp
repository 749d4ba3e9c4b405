#include "worker/tokenizer/unigram.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

// an unknown token's score is the lowest score minus this number, as in SentencePiece
constexpr double kUnknownPenalty = 10;

tl::unexpected<Error> refuse_unigram(const std::string& what) {
    return fail(ErrorCode::InvalidArgument, "model Unigram: " + what);
}

}  // namespace

// Adds a token from an entry ["token", score] of the file.
Result<void> Unigram::add(const Json& entry) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        return refuse_unigram("vocab has an entry that is not a pair [token, score]");
    const auto id = static_cast<std::uint32_t>(tokens_.size());
    tokens_.push_back(entry[0].get<std::string>());
    scores_.push_back(entry[1].get<double>());
    ids_[tokens_.back()] = id;
    std::uint32_t node = 0;
    for (const char byte : tokens_.back()) {
        const auto next = static_cast<std::uint32_t>(nodes_.size());
        const auto [found, fresh] = edges_.try_emplace(edge(node, byte), next);
        if (fresh) nodes_.push_back(-1);
        node = found->second;
    }
    if (node != 0) nodes_[node] = id;
    return {};
}

Result<Unigram> Unigram::parse(const Json& json) {
    JsonReader reader(json, "model Unigram");
    reader.get_or<std::string>("type", "Unigram");
    Unigram model;
    const Json& vocab = reader.raw("vocab");
    if (!vocab.is_array() || vocab.empty()) return refuse_unigram("has no vocab");
    for (const Json& entry : vocab) ROLL_TRY_VOID(model.add(entry));
    const auto unknown = reader.get_or<std::int64_t>("unk_id", -1);
    if (unknown >= std::ssize(model.tokens_))
        return refuse_unigram("unk_id is not the index of an entry of vocab");
    model.unknown_ = unknown;
    model.byte_fallback_ = reader.get_or("byte_fallback", false);
    model.unknown_score_ =
        *std::min_element(model.scores_.begin(), model.scores_.end()) - kUnknownPenalty;
    ROLL_TRY_VOID(reader.finish());
    return model;
}

// Finds the best path to each position in the word. A token that starts at a position with a path
// makes a path to the token's end.
void Unigram::find_best(std::string_view word, UnigramWork& work) const {
    work.ends_.assign(word.size() + 1, {});
    work.ends_[0].start = 0;
    const auto offer = [&](std::size_t start, std::size_t end, std::int64_t id, double score) {
        UnigramWork::Best& best = work.ends_[end];
        const double sum = work.ends_[start].score + score;
        if (best.start >= 0 && sum <= best.score) return;
        best = {sum, static_cast<std::int64_t>(start), id};
    };
    for (std::size_t start = 0; start < word.size();) {
        const std::size_t size = character_size(word[start]);
        bool whole = false;  // true: a token is exactly the character at `start`
        std::uint32_t node = 0;
        for (std::size_t at = start; at < word.size(); ++at) {
            const auto found = edges_.find(edge(node, word[at]));
            if (found == edges_.end()) break;
            node = found->second;
            const std::int64_t token = nodes_[node];
            if (token < 0) continue;
            offer(start, at + 1, token, scores_[token]);
            whole |= at + 1 == start + size;
        }
        if (!whole) offer(start, start + size, unknown_, unknown_score_);
        start += size;
    }
}

void Unigram::append(std::string_view piece, std::vector<std::uint32_t>& out) const {
    if (const auto id = id_of(piece)) return out.push_back(*id);
    if (byte_fallback_) {
        std::vector<std::uint32_t> bytes;
        for (const char byte : piece)
            if (const auto id = id_of(fmt::format("<0x{:02X}>", static_cast<std::uint8_t>(byte))))
                bytes.push_back(*id);
        if (bytes.size() == piece.size()) {
            out.insert(out.end(), bytes.begin(), bytes.end());
            return;
        }
    }
    if (unknown_ >= 0) out.push_back(static_cast<std::uint32_t>(unknown_));
}

void Unigram::encode(std::string_view word, UnigramWork& work,
                     std::vector<std::uint32_t>& out) const {
    find_best(word, work);
    // pieces are collected from last to first; adjacent unknown pieces are merged
    auto& pieces = work.pieces_;
    pieces.clear();
    bool joins = false;
    for (std::size_t end = word.size(); end > 0;) {
        const UnigramWork::Best& best = work.ends_[end];
        const auto start = static_cast<std::size_t>(best.start);
        const bool is_unknown = best.id == unknown_;
        if (is_unknown && joins) {
            pieces.back().first = start;
        } else {
            pieces.emplace_back(start, end);
        }
        joins = is_unknown;
        end = start;
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
        append(word.substr(piece->first, piece->second - piece->first), out);
}

std::optional<std::uint32_t> Unigram::id_of(std::string_view token) const {
    const auto found = ids_.find(std::string(token));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Unigram::token_of(std::uint32_t id) const {
    return id < tokens_.size() ? &tokens_[id] : nullptr;
}

}  // namespace roll::tokenizer
