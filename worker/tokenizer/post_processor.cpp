#include "worker/tokenizer/post_processor.hpp"

#include "worker/tokenizer/normalizer.hpp"

namespace roll::tokenizer {
namespace {

tl::unexpected<Error> refuse_template(const std::string& what) {
    return fail(ErrorCode::InvalidArgument, "post_processor TemplateProcessing: " + what);
}

// Appends the ids of one special token of the template.
Result<void> append_special(const Json& piece, const Json& specials,
                            std::vector<std::uint32_t>& ids) {
    const Json::json_pointer place("/SpecialToken/id");
    if (!piece.contains(place) || !piece[place].is_string())
        return refuse_template("a piece is neither SpecialToken nor Sequence");
    const auto& name = piece[place].get_ref<const std::string&>();
    const auto special = specials.find(name);
    if (special == specials.end() || !special->is_object() || !special->contains("ids") ||
        !holds<std::vector<std::uint32_t>>((*special)["ids"]))
        return refuse_template("special_tokens lacks the ids of " + name);
    for (const Json& id : (*special)["ids"]) ids.push_back(id.get<std::uint32_t>());
    return {};
}

Result<void> add_template(JsonReader& reader, Surroundings& result) {
    ROLL_TRY(const Json* pieces, parse_list(reader.raw("single"), "TemplateProcessing single"));
    const Json& specials = reader.raw("special_tokens");
    if (!specials.is_object())
        return refuse_template("special_tokens must be an object; copy the file again");
    reader.raw("pair");
    std::vector<std::uint32_t> before;
    std::vector<std::uint32_t> after;
    bool text_seen = false;
    for (const Json& piece : *pieces) {
        if (piece.is_object() && piece.contains("Sequence")) {
            if (std::exchange(text_seen, true))
                return refuse_template(
                    "the template has two pieces Sequence; only one is supported");
            continue;
        }
        if (!piece.is_object())
            return refuse_template("a piece is neither SpecialToken nor Sequence");
        ROLL_TRY_VOID(append_special(piece, specials, text_seen ? after : before));
    }
    if (!text_seen)
        return refuse_template("the template has no piece Sequence, which stands for the text");
    result.before.insert(result.before.begin(), before.begin(), before.end());
    result.after.insert(result.after.end(), after.begin(), after.end());
    return reader.finish();
}

Result<void> add(const Json& json, int depth, Surroundings& result) {
    ROLL_TRY(const std::string type, parse_type(json, "the post_processor"));
    JsonReader reader(json, "post_processor " + type);
    reader.get<std::string>("type");
    if (type == "TemplateProcessing") return add_template(reader, result);
    if (type == "ByteLevel") return {};
    if (type == "Sequence" && depth < kNestingMax) {
        ROLL_TRY(const Json* parts,
                 parse_list(reader.raw("processors"), "post_processor Sequence"));
        for (const Json& part : *parts) ROLL_TRY_VOID(add(part, depth + 1, result));
        return reader.finish();
    }
    return fail(ErrorCode::InvalidArgument, "post_processor \"" + type + "\" is not supported");
}

}  // namespace

Result<Surroundings> Surroundings::parse(const Json& json) {
    Surroundings result;
    if (!json.is_null()) ROLL_TRY_VOID(add(json, 0, result));
    return result;
}

}  // namespace roll::tokenizer
