#include "worker/tokenizer/model.hpp"

namespace roll::tokenizer {

Result<Model> Model::parse(const Json& json, bool byte_level) {
    if (!json.is_object())
        return fail(ErrorCode::Corrupt, "the tokenizer file has no \"model\"; copy the file again");
    const std::string type = json.contains("type") ? dump(json["type"]) : "\"BPE\"";
    if (type == "\"BPE\"") {
        ROLL_TRY(Bpe bpe, Bpe::parse(json, byte_level));
        return Model(std::move(bpe));
    }
    if (type == "\"Unigram\"" && !byte_level) {
        ROLL_TRY(Unigram unigram, Unigram::parse(json));
        return Model(std::move(unigram));
    }
    return fail(ErrorCode::InvalidArgument,
                "model " + type + (byte_level ? " over bytes" : "") + " is not supported");
}

}  // namespace roll::tokenizer
