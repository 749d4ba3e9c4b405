#include "worker/tokenizer/decoder.hpp"

#include <fmt/format.h>

#include "common/number.hpp"
#include "worker/tokenizer/bpe.hpp"
#include "worker/tokenizer/normalizer.hpp"
#include "worker/tokenizer/pre_tokenizer.hpp"

namespace roll::tokenizer {
namespace {

constexpr const char* kReplacementCharacter = "\xEF\xBF\xBD";

// Returns the byte that a token <0xXX> stands for; -1 for other tokens.
int fallback_byte(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
    const std::size_t sign = token[3] == '+' ? 1 : 0;
    const auto digits = std::string_view(token).substr(3 + sign, 2 - sign);
    const auto value = parse_number<unsigned>(digits, 16);
    return value ? static_cast<int>(*value) : -1;
}

}  // namespace

void Decoder::step(const ByteLevel&, Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += spelled_bytes(token).value_or(token);
    tokens = {valid_prefix(bytes) == bytes.size() ? std::move(bytes) : replace_broken(bytes)};
}

void Decoder::step(const ByteFallback&, Tokens& tokens) {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
        if (valid_prefix(bytes) == bytes.size()) {
            if (!bytes.empty()) result.push_back(bytes);
        } else {
            result.insert(result.end(), bytes.size(), kReplacementCharacter);
        }
        bytes.clear();
    };
    for (std::string& token : tokens) {
        if (const int byte = fallback_byte(token); byte >= 0) {
            bytes.push_back(static_cast<char>(byte));
        } else {
            flush();
            result.push_back(std::move(token));
        }
    }
    flush();
    tokens = std::move(result);
}

void Decoder::step(const Fuse&, Tokens& tokens) {
    tokens = {fmt::format("{}", fmt::join(tokens, ""))};
}

void Decoder::step(const Strip& strip, Tokens& tokens) {
    for (std::string& token : tokens) {
        std::string_view text = token;
        for (std::size_t i = 0; i < strip.start && text.starts_with(strip.content); ++i)
            text.remove_prefix(strip.content.size());
        for (std::size_t i = 0; i < strip.stop && text.ends_with(strip.content); ++i)
            text.remove_suffix(strip.content.size());
        token = std::string(text);
    }
}

void Decoder::step(const Replace& replace, Tokens& tokens) {
    for (std::string& token : tokens) {
        std::string next;
        replace.pattern.split(token, [&](std::size_t begin, std::size_t end, bool is_match) {
            next.append(is_match ? replace.text : token.substr(begin, end - begin));
        });
        token = std::move(next);
    }
}

void Decoder::step(const Metaspace& metaspace, Tokens& tokens) {
    const Pattern replacement = Pattern::literal(metaspace.replacement);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::string next;
        replacement.split(tokens[i], [&](std::size_t begin, std::size_t end, bool is_match) {
            if (!is_match) {
                next.append(tokens[i], begin, end - begin);
            } else if (i > 0 || !metaspace.prepended) {
                next += ' ';
            }
        });
        tokens[i] = std::move(next);
    }
}

Result<void> Decoder::add(const Json& json, int depth) {
    ROLL_TRY(const std::string type, parse_type(json, "the decoder"));
    JsonReader reader(json, "decoder " + type);
    reader.get<std::string>("type");
    if (type == "ByteLevel") {
        for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"})
            reader.get_or(key, true);
        steps_.emplace_back(ByteLevel{});
    } else if (type == "ByteFallback") {
        steps_.emplace_back(ByteFallback{});
    } else if (type == "Fuse") {
        steps_.emplace_back(Fuse{});
    } else if (type == "Strip") {
        steps_.emplace_back(Strip{.content = reader.get<std::string>("content"),
                                  .start = reader.get<std::uint32_t>("start"),
                                  .stop = reader.get<std::uint32_t>("stop")});
        if (std::get<Strip>(steps_.back()).content.empty())
            return fail(ErrorCode::InvalidArgument, "decoder Strip needs one character");
    } else if (type == "Replace") {
        ROLL_TRY(Pattern pattern, parse_pattern(reader.raw("pattern"), "decoder Replace"));
        steps_.emplace_back(Replace{std::move(pattern), reader.get<std::string>("content")});
    } else if (type == "Metaspace") {
        ROLL_TRY(MetaspaceFields fields, parse_metaspace(reader));
        steps_.emplace_back(
            Metaspace{std::move(fields.replacement), fields.prepend_scheme != "never"});
    } else if (type == "Sequence" && depth < kNestingMax) {
        ROLL_TRY(const Json* parts, parse_list(reader.raw("decoders"), "decoder Sequence"));
        for (const Json& part : *parts) ROLL_TRY_VOID(add(part, depth + 1));
    } else {
        return fail(ErrorCode::InvalidArgument, "decoder \"" + type + "\" is not supported");
    }
    return reader.finish();
}

Result<Decoder> Decoder::parse(const Json& json) {
    Decoder decoder;
    decoder.present_ = !json.is_null();
    if (decoder.present_) ROLL_TRY_VOID(decoder.add(json, 0));
    return decoder;
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
    if (!present_) return fmt::format("{}", fmt::join(tokens, " "));
    for (const auto& which : steps_) std::visit([&](const auto& one) { step(one, tokens); }, which);
    return fmt::format("{}", fmt::join(tokens, ""));
}

}  // namespace roll::tokenizer
