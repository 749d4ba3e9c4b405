#include "worker/tokenizer/normalizer.hpp"

#include "worker/tokenizer/normal_form.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {

Result<std::string> parse_type(const Json& json, const std::string& owner) {
    if (json.is_object() && json.contains("type") && json["type"].is_string())
        return json["type"].get<std::string>();
    return fail(ErrorCode::InvalidArgument, owner + " has no type");
}

Result<Pattern> parse_pattern(const Json& json, const std::string& owner) {
    if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
        const auto& text = json.begin()->get_ref<const std::string&>();
        if (json.begin().key() == "String") return Pattern::literal(text);
        if (json.begin().key() == "Regex") return Pattern::compile(text);
    }
    return fail(ErrorCode::InvalidArgument,
                owner + " has a pattern that is neither a String nor a Regex");
}

Result<const Json*> parse_list(const Json& json, const std::string& owner) {
    if (json.is_array()) return &json;
    return fail(ErrorCode::InvalidArgument, owner + " has no list of parts");
}

Result<void> Normalizer::add(const Json& json, int depth) {
    ROLL_TRY(const std::string type, parse_type(json, "the normalizer"));
    JsonReader reader(json, "normalizer " + type);
    reader.get<std::string>("type");
    if (type == "NFC") {
        steps_.emplace_back(Compose{});
    } else if (type == "Precompiled") {
        ROLL_TRY(Precompiled map,
                 Precompiled::parse(reader.get<std::string>("precompiled_charsmap")));
        steps_.emplace_back(std::move(map));
    } else if (type == "Strip") {
        steps_.emplace_back(Strip{reader.get<bool>("strip_left"), reader.get<bool>("strip_right")});
    } else if (type == "Prepend") {
        steps_.emplace_back(Prepend{reader.get<std::string>("prepend")});
    } else if (type == "Replace") {
        ROLL_TRY(Pattern pattern, parse_pattern(reader.raw("pattern"), "normalizer Replace"));
        steps_.emplace_back(Replace{std::move(pattern), reader.get<std::string>("content")});
    } else if (type == "Sequence" && depth < kNestingMax) {
        ROLL_TRY(const Json* parts, parse_list(reader.raw("normalizers"), "normalizer Sequence"));
        for (const Json& part : *parts) ROLL_TRY_VOID(add(part, depth + 1));
    } else {
        return fail(ErrorCode::InvalidArgument, "normalizer \"" + type + "\" is not supported");
    }
    return reader.finish();
}

Result<Normalizer> Normalizer::parse(const Json& json) {
    Normalizer normalizer;
    if (!json.is_null()) ROLL_TRY_VOID(normalizer.add(json, 0));
    return normalizer;
}

std::string Normalizer::apply(const Compose&, std::string_view text) { return composed(text); }

std::string Normalizer::apply(const Precompiled& map, std::string_view text) {
    return map.apply(text);
}

std::string Normalizer::apply(const Prepend& prepend, std::string_view text) {
    return text.empty() ? std::string() : prepend.text + std::string(text);
}

std::string Normalizer::apply(const Replace& replace, std::string_view text) {
    std::string next;
    replace.pattern.split(text, [&](std::size_t begin, std::size_t end, bool is_match) {
        next.append(is_match ? std::string_view(replace.text) : text.substr(begin, end - begin));
    });
    return next;
}

std::string Normalizer::apply(const Strip& strip, std::string_view text) {
    const PropertyTable& table = PropertyTable::get();
    std::size_t begin = text.size();  // index of the first byte that is not white space
    std::size_t end = 0;
    for (const char* at = text.data(); at < text.data() + text.size();) {
        const auto place = static_cast<std::size_t>(at - text.data());
        if (table.of(next_code_point(at)) & kSpace) continue;
        begin = std::min(begin, place);
        end = static_cast<std::size_t>(at - text.data());
    }
    if (!strip.left) begin = 0;
    if (!strip.right) end = text.size();
    return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

// Only the step Precompiled can turn the first character into several words. With other steps, the
// character stays in the first word, so the result 1 is enough.
std::size_t Normalizer::head(std::string_view text) const {
    std::size_t head = 1;
    for (const Step& step : steps_)
        if (const auto* map = std::get_if<Precompiled>(&step)) head = map->head(text);
    return head;
}

std::string Normalizer::apply(std::string_view input) const {
    std::string text(input);
    for (const Step& step : steps_) {
        text = std::visit([&](const auto& which) { return apply(which, text); }, step);
    }
    return text;
}

}  // namespace roll::tokenizer
