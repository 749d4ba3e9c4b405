#include "common/protocol/progress.hpp"

#include "common/json.hpp"

namespace roll::protocol {

Result<Json> read_progress(std::string_view text, std::size_t bytes_max) {
    constexpr int kDepthMax = 8;
    if (text.size() > bytes_max)
        return fail(ErrorCode::Corrupt, "progress: the report has " + std::to_string(text.size()) +
                                            " bytes; allowed: at most " +
                                            std::to_string(bytes_max));
    ROLL_TRY(Json progress, parse_json(text, kDepthMax));
    if (!progress.is_object()) return fail(ErrorCode::Corrupt, "progress is not an object");
    return progress;
}

}  // namespace roll::protocol
