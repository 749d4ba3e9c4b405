#include "common/protocol/fields.hpp"

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

Json to_json(const AttemptKey& key) {
    return {{"job", key.job.value}, {"token", to_string(key.token)}};
}

Result<Token> read_token(const Json& json, const std::string& path) {
    const auto* text = json.get_ptr<const std::string*>();
    const auto token = text == nullptr ? std::nullopt : parse_token(*text);
    if (!token) return fail(ErrorCode::Corrupt, path + ": is not an attempt token such as \"3-1\"");
    return *token;
}

Result<AttemptKey> read_attempt_key(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    AttemptKey key;
    key.job.value = r.get<std::uint64_t>("job");
    const Json& token = r.raw("token");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(key.token, read_token(token, path));
    return key;
}

Json to_json(const WrittenCheckpoint& checkpoint) {
    Json json = {{"step", checkpoint.step}, {"directory", checkpoint.directory}};
    if (checkpoint.deleted) json["deleted"] = true;
    if (checkpoint.writer) json["writer"] = to_string(*checkpoint.writer);
    if (checkpoint.asked > 0) json["asked"] = checkpoint.asked;
    if (checkpoint.save_ms > 0) json["save_ms"] = checkpoint.save_ms;
    return json;
}

Result<WrittenCheckpoint> read_written_checkpoint(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    WrittenCheckpoint checkpoint;
    checkpoint.step = r.get<std::int64_t>("step");
    checkpoint.directory = r.get<std::string>("directory");
    checkpoint.deleted = r.get_or("deleted", false);
    checkpoint.asked = r.get_or<std::uint64_t>("asked", 0);
    checkpoint.save_ms = r.get_or<std::int64_t>("save_ms", 0);
    const Json& writer = r.raw("writer");
    ROLL_TRY_VOID(r.finish_lenient());
    if (!writer.is_null()) {
        ROLL_TRY(checkpoint.writer, read_token(writer, path + ".writer"));
    }
    return checkpoint;
}

Json to_json(const WrittenExport& written) {
    return {{"step", written.step}, {"directory", written.directory}, {"oldest", written.oldest}};
}

Result<WrittenExport> read_written_export(const Json& json, const std::string& path) {
    JsonReader r(json, path);
    WrittenExport written;
    written.step = r.get<std::int64_t>("step");
    written.directory = r.get<std::string>("directory");
    written.oldest = r.get<std::int64_t>("oldest");
    ROLL_TRY_VOID(r.finish_lenient());
    return written;
}

Json to_json(const TrainingRequest& request) {
    return {{"number", request.number}, {"what", name_of(request.kind)}, {"value", request.value}};
}

Result<std::optional<TrainingRequest>> read_training_request(JsonReader& r) {
    TrainingRequest request;
    request.number = r.get<std::uint64_t>("number");
    request.value = r.get_or<std::int64_t>("value", 0);
    const auto what = r.get<std::string>("what");
    ROLL_TRY_VOID(r.finish_lenient());
    const auto kind = find_name<RequestKind>(kRequestKinds, what);
    if (!kind) return std::nullopt;
    request.kind = *kind;
    return request;
}

Json to_json(const RequestAnswer& answer) {
    Json json = {{"number", answer.number}, {"step", answer.step}, {"text", answer.text}};
    if (answer.stop_step > 0) json["stop_step"] = answer.stop_step;
    return json;
}

Result<RequestAnswer> read_request_answer(const Json& json, const std::string& path) {
    constexpr std::size_t kTextBytesMax = 1000;
    JsonReader r(json, path);
    RequestAnswer answer;
    answer.number = r.get<std::uint64_t>("number");
    answer.step = r.get<std::int64_t>("step");
    answer.stop_step = r.get_or<std::int64_t>("stop_step", 0);
    answer.text = r.get<std::string>("text").substr(0, kTextBytesMax);
    ROLL_TRY_VOID(r.finish_lenient());
    return answer;
}

}  // namespace roll::protocol
