#include "common/protocol/terminal.hpp"

#include "common/base64.hpp"
#include "common/protocol/fields.hpp"

namespace roll::protocol {
namespace {

std::string frame_of(const Json& json) { return std::string(kTerminalMark) + dump(json); }

Result<Json> json_of(std::string_view frame) {
    if (!is_about_terminal(frame))
        return fail(ErrorCode::Corrupt, "this message is not about a terminal");
    return parse_json(frame.substr(kTerminalMark.size()));
}

Result<std::string> bytes_of(const std::string& text) {
    auto bytes = from_base64(text);
    if (!bytes) return fail(ErrorCode::Corrupt, "terminal: data is not base64");
    return *std::move(bytes);
}

Result<TerminalStart> read_start(const Json& json) {
    JsonReader r(json, "terminal.start");
    TerminalStart start;
    start.program = r.get<int>("program");
    start.command = r.get<std::vector<std::string>>("command");
    start.terminal = r.get<bool>("terminal");
    start.term = r.get<std::string>("term");
    start.owns = r.get<bool>("owns");
    ROLL_TRY_VOID(r.finish_lenient());
    return start;
}

}  // namespace

std::string encode(const TerminalOrder& order) {
    Json json = {{"id", order.terminal},
                 {"attempt", to_json(order.attempt)},
                 {"limit", order.limit},
                 {"at", order.at}};
    if (order.start)
        json["start"] = {{"program", order.start->program},
                         {"command", order.start->command},
                         {"terminal", order.start->terminal},
                         {"term", order.start->term},
                         {"owns", order.start->owns}};
    if (!order.input.empty()) json["input"] = to_base64(order.input);
    if (order.end_of_input) json["end"] = true;
    if (order.close) json["close"] = true;
    if (order.rows > 0) json["rows"] = order.rows;
    if (order.columns > 0) json["columns"] = order.columns;
    return frame_of(json);
}

std::string encode(const TerminalNews& news) {
    Json json = {{"id", news.terminal}, {"at", news.at}, {"taken", news.taken}};
    if (!news.output.empty()) json["output"] = to_base64(news.output);
    if (news.errors) json["errors"] = true;
    if (news.exit) json["exit"] = *news.exit;
    if (!news.trouble.empty()) json["trouble"] = news.trouble;
    return frame_of(json);
}

Result<TerminalOrder> decode_terminal_order(std::string_view frame) {
    ROLL_TRY(const Json json, json_of(frame));
    JsonReader r(json, "terminal");
    TerminalOrder order;
    order.terminal = r.get<std::uint64_t>("id");
    order.limit = r.get<std::uint64_t>("limit");
    order.at = r.get<std::uint64_t>("at");
    const auto input = r.get_or("input", std::string{});
    order.end_of_input = r.get_or("end", false);
    order.close = r.get_or("close", false);
    order.rows = r.get_or("rows", 0);
    order.columns = r.get_or("columns", 0);
    const Json& attempt = r.raw("attempt");
    const Json& start = r.raw("start");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(order.input, bytes_of(input));
    ROLL_TRY(order.attempt, read_attempt_key(attempt, "terminal.attempt"));
    if (!start.is_null()) {
        ROLL_TRY(order.start, read_start(start));
    }
    return order;
}

Result<TerminalNews> decode_terminal_news(std::string_view frame) {
    ROLL_TRY(const Json json, json_of(frame));
    JsonReader r(json, "terminal");
    TerminalNews news;
    news.terminal = r.get<std::uint64_t>("id");
    news.at = r.get<std::uint64_t>("at");
    news.taken = r.get<std::uint64_t>("taken");
    const auto output = r.get_or("output", std::string{});
    news.errors = r.get_or("errors", false);
    if (r.has("exit")) news.exit = r.get<int>("exit");
    news.trouble = r.get_or("trouble", std::string{});
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(news.output, bytes_of(output));
    return news;
}

}  // namespace roll::protocol
