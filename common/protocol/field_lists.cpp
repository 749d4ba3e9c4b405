#include "common/protocol/field_lists.hpp"

#include "common/protocol/version.hpp"

namespace roll::protocol {

Result<Json> parse_frame(std::string_view frame, const char* what) {
    ROLL_TRY(Json json, parse_json(frame));
    if (!json.is_object())
        return fail(ErrorCode::Corrupt, std::string(what) + ": is not an object");
    JsonReader r(json, what);
    const auto version = r.get<std::int64_t>("v");
    ROLL_TRY_VOID(r.finish_lenient());
    if (version < kOldestVersion || version > kVersion)
        return fail(ErrorCode::Refused,
                    std::string(what) + ": the peer speaks version " + std::to_string(version) +
                        " of the protocol, but this program speaks only versions " +
                        std::to_string(kOldestVersion) + " to " + std::to_string(kVersion),
                    "install the same release of Roll on both sides");
    return json;
}

}  // namespace roll::protocol
