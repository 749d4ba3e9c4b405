#include "common/protocol/client.hpp"

#include <fmt/format.h>

#include "common/protocol/field_lists.hpp"

namespace roll::protocol {
namespace {

ErrorCode code_of(std::string_view name) {
    for (const ErrorCode code :
         {ErrorCode::InvalidArgument, ErrorCode::NotFound, ErrorCode::Refused,
          ErrorCode::Unavailable, ErrorCode::Corrupt, ErrorCode::Failed}) {
        if (name == name_of(code)) return code;
    }
    return ErrorCode::Failed;  // a rolld newer than this client may send other codes
}

Result<Error> read_error(const Json& json) {
    JsonReader r(json, "reply.error");
    Error error;
    error.code = code_of(r.get<std::string>("code"));
    error.message = r.get<std::string>("message");
    error.hint = r.get_or("hint", std::string{});
    ROLL_TRY_VOID(r.finish_lenient());
    return error;
}

// A SAX parser that stops at the top-level field "id". The rest of the reply, which may have
// megabytes, is not parsed.
class IdFinder : public nlohmann::json_sax<Json> {
  public:
    std::uint64_t id = 0;

    bool null() override { return skip(); }
    bool boolean(bool) override { return skip(); }
    bool number_integer(number_integer_t) override { return skip(); }
    bool number_unsigned(number_unsigned_t value) override {
        if (found_) id = value;
        return skip();
    }
    bool number_float(number_float_t, const string_t&) override { return skip(); }
    bool string(string_t&) override { return skip(); }
    bool binary(binary_t&) override { return skip(); }
    bool start_object(std::size_t) override { return enter(); }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return enter(); }
    bool end_array() override { return leave(); }
    bool key(string_t& name) override {
        found_ = depth_ == 1 && name == "id";
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
        return false;
    }

  private:
    bool skip() const { return !found_; }
    bool enter() {
        ++depth_;
        return skip();
    }
    bool leave() {
        --depth_;
        return true;
    }
    int depth_ = 0;
    bool found_ = false;
};

}  // namespace

std::string encode(const Request& request) {
    return encode_request(request.id, request.op, request.args, request.version);
}

// Encodes a request. The text equals the result of dump(), but the arguments are not copied into a
// new JSON object.
std::string encode_request(std::uint64_t id, const std::string& op, const Json& args, int version) {
    return fmt::format(R"({{"args":{},"id":{},"op":{},"v":{}}})", dump(args), id, dump(Json(op)),
                       version);
}

Result<Request> decode_request(std::string_view frame) {
    ROLL_TRY(Json json, parse_frame(frame, "request"));
    JsonReader r(json, "request");
    Request request;
    request.version = r.get<int>("v");
    request.id = r.get<std::uint64_t>("id");
    request.op = r.get<std::string>("op");
    const Json& args = r.raw("args");
    ROLL_TRY_VOID(r.finish_lenient());
    if (args.is_object())
        request.args = std::move(json["args"]);
    else if (!args.is_null())
        return fail(ErrorCode::Corrupt, "request.args is not an object");
    return request;
}

Error frame_too_large(std::size_t bytes) {
    return {ErrorCode::InvalidArgument,
            "the message has " + std::to_string(bytes) + " bytes; allowed: at most " +
                std::to_string(kFrameBytesMax),
            "put large texts into files, or request less at once"};
}

std::uint64_t request_id(std::string_view frame) {
    IdFinder finder;
    Json::sax_parse(frame, &finder);
    return finder.id;
}

Json error_json(const Error& error) {
    return {{"error",
             {{"code", name_of(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
}

std::string encode_reply(std::uint64_t id, const Json& ok, int version) {
    // dump() would make the same text, but would need a copy of a large value.
    return fmt::format(R"({{"id":{},"ok":{},"v":{}}})", id, dump(ok), version);
}

std::string encode_reply(std::uint64_t id, const Error& error, int version) {
    Json json = error_json(error);
    json["v"] = version;
    json["id"] = id;
    return dump(json);
}

Result<Json> decode_reply(std::string_view frame, std::uint64_t id) {
    ROLL_TRY(Json json, parse_frame(frame, "reply"));
    JsonReader r(json, "reply");
    const auto found = r.get<std::uint64_t>("id");
    ROLL_TRY_VOID(r.finish_lenient());
    if (found != id)
        return fail(ErrorCode::Corrupt, "reply: answers request " + std::to_string(found) +
                                            ", not " + std::to_string(id));
    if (r.has("error")) {
        ROLL_TRY(Error error, read_error(json["error"]));
        return tl::unexpected(std::move(error));
    }
    if (!r.has("ok")) return fail(ErrorCode::Corrupt, "reply: needs a field ok or error");
    return std::move(json["ok"]);
}

}  // namespace roll::protocol
