#include "common/protocol/fields.hpp"

namespace roll::protocol {

Result<void> ObjectReader::finish() {
    ROLL_TRY_VOID(reader_.finish_lenient());
    return read_;
}

Result<void> read_value(const Json& json, const std::string& path, Token& token) {
    const auto* text = json.get_ptr<const std::string*>();
    const auto parsed = text == nullptr ? std::nullopt : parse_token(*text);
    if (!parsed)
        return fail(ErrorCode::Corrupt, path + ": is not an attempt token such as \"3-1\"");
    token = *parsed;
    return {};
}

// The error messages do not quote a value, because the values may be secrets.
Result<void> read_value(const Json& json, const std::string& path,
                        std::map<std::string, std::string>& texts) {
    if (!json.is_object()) return fail(ErrorCode::Corrupt, path + " is not an object");
    for (const auto& [name, value] : json.items()) {
        if (!value.is_string())
            return fail(ErrorCode::Corrupt, path + "." + name + " is not a string");
        texts[name] = value.get<std::string>();
    }
    return {};
}

}  // namespace roll::protocol
