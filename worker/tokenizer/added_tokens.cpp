#include "worker/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <functional>

#include "common/hash.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

// first_of() returns the properties of the first character. last_start() returns the offset of the
// last character.
Properties first_of(std::string_view text) {
    const char* at = text.data();
    return PropertyTable::get().of(next_code_point(at));
}
std::size_t last_start(std::string_view text) {
    std::size_t at = text.size() - 1;
    while ((static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

bool starts_with_word(std::string_view text) {
    const char* at = text.data();
    const char32_t code = next_code_point(at);
    // the characters with the property Join_Control
    const bool joins = code == 0x200C || code == 0x200D;
    return joins || (PropertyTable::get().of(code) & kWord) != 0;
}

Result<AddedToken> parse_token(const Json& json) {
    JsonReader reader(json, "added_tokens");
    AddedToken token{.content = reader.get<std::string>("content"),
                     .id = reader.get<std::uint32_t>("id"),
                     .single_word = reader.get<bool>("single_word"),
                     .lstrip = reader.get<bool>("lstrip"),
                     .rstrip = reader.get<bool>("rstrip"),
                     .normalized = reader.get<bool>("normalized"),
                     .special = reader.get<bool>("special")};
    ROLL_TRY_VOID(reader.finish());
    return token;
}

}  // namespace

void TokenFinder::add(const AddedToken& token) {
    if (token.spelling.empty() || !tokens_.emplace(token.spelling, token).second) return;
    auto& sizes = starts_[static_cast<std::uint8_t>(token.spelling.front())];
    if (std::find(sizes.begin(), sizes.end(), token.spelling.size()) != sizes.end()) return;
    sizes.push_back(token.spelling.size());
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
}

const AddedToken* TokenFinder::longest_at(std::string_view text, std::size_t at) const {
    for (const std::size_t size : starts_[static_cast<std::uint8_t>(text[at])]) {
        if (size > text.size() - at) continue;
        const auto found = tokens_.find(text.substr(at, size));
        if (found != tokens_.end()) return &found->second;
    }
    return nullptr;
}

bool TokenFinder::fits(const AddedToken& token, std::string_view text, std::size_t begin,
                       std::size_t end) {
    if (!token.single_word) return true;
    const bool after_word =
        begin > 0 && starts_with_word(text.substr(last_start(text.substr(0, begin))));
    const bool before_word = end < text.size() && starts_with_word(text.substr(end));
    return !after_word && !before_word;
}

void TokenFinder::widen(const AddedToken& token, std::string_view text, std::size_t done,
                        std::size_t& begin, std::size_t& end) {
    while (token.lstrip && begin > done) {
        const std::size_t previous = last_start(text.substr(0, begin));
        if ((first_of(text.substr(previous)) & kSpace) == 0) break;
        begin = previous;
    }
    if (token.lstrip) begin = std::max(begin, done);
    while (token.rstrip && end < text.size() && (first_of(text.substr(end)) & kSpace) != 0)
        end += character_size(text[end]);
}

Result<AddedTokens> AddedTokens::parse(const Json& json, const Model& model,
                                       const Normalizer& normalizer) {
    AddedTokens result;
    if (json.is_null()) return result;
    ROLL_TRY(const Json* list, parse_list(json, "added_tokens"));
    auto next = static_cast<std::uint32_t>(model.size());
    for (const Json& entry : *list) {
        ROLL_TRY(AddedToken token, parse_token(entry));
        if (token.content.empty()) continue;
        const auto own = model.id_of(token.content);
        const std::uint32_t id = own ? *own : std::max(next, token.id);
        if (token.id != id || (!own && token.id >= 1U << 22)) {
            return fail(ErrorCode::InvalidArgument,
                        "added token \"" + token.content + "\" has the id " +
                            std::to_string(token.id) + "; the vocabulary gives this token the id " +
                            std::to_string(id));
        }
        if (!own) next = id + 1;
        token.spelling = token.normalized ? normalizer.apply(token.content) : token.content;
        (token.normalized ? result.normalized_ : result.raw_).add(token);
        result.by_id_[token.id] = result.tokens_.size();
        result.tokens_.push_back(std::move(token));
    }
    return result;
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace roll::tokenizer
