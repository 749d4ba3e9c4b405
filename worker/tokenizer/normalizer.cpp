#include "worker/tokenizer/normalizer.hpp"

#include "worker/tokenizer/normal_form.hpp"

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
                owner + " has a pattern that is no String and no Regex");
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
    } else if (type == "Prepend") {
        steps_.emplace_back(Prepend{reader.get<std::string>("prepend")});
    } else if (type == "Replace") {
        ROLL_TRY(Pattern pattern, parse_pattern(reader.raw("pattern"), "normalizer Replace"));
        steps_.emplace_back(Replace{std::move(pattern), reader.get<std::string>("content")});
    } else if (type == "Sequence" && depth < kNestingMax) {
        ROLL_TRY(const Json* parts, parse_list(reader.raw("normalizers"), "normalizer Sequence"));
        for (const Json& part : *parts) ROLL_TRY_VOID(add(part, depth + 1));
    } else {
        return fail(ErrorCode::InvalidArgument, "normalizer \"" + type + "\" is not built");
    }
    return reader.finish();
}

Result<Normalizer> Normalizer::parse(const Json& json) {
    Normalizer normalizer;
    if (!json.is_null()) ROLL_TRY_VOID(normalizer.add(json, 0));
    return normalizer;
}

std::string Normalizer::apply(std::string_view input) const {
    std::string text(input);
    for (const auto& step : steps_) {
        if (std::holds_alternative<Compose>(step)) {
            text = Composer::get().compose(text);
        } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
            if (!text.empty()) text.insert(0, prepend->text);
        } else {
            const auto& replace = std::get<Replace>(step);
            std::string next;
            replace.pattern.split(text, [&](std::size_t begin, std::size_t end, bool is_match) {
                next.append(is_match ? replace.text : text.substr(begin, end - begin));
            });
            text = std::move(next);
        }
    }
    return text;
}

}  // namespace roll::tokenizer
