#include "common/protocol/terminal.hpp"

#include "common/base64.hpp"
#include "common/protocol/field_lists.hpp"

namespace roll::protocol {
namespace {

// Adds a field that holds bytes in base64. The field is left out if there are no bytes.
template <class V, class Bytes>
void add_base64(V& v, const char* name, Bytes& bytes) {
    std::string text = to_base64(bytes);
    v.added(name, text);
    if constexpr (V::kReads) {
        if (auto read = from_base64(text))
            bytes = *std::move(read);
        else
            v.refuse("data is not base64");
    }
}

template <class T>
std::string frame_of(const T& message) {
    return std::string(kTerminalMark) + text_of(message).text();
}

template <class T>
Result<T> message_of(std::string_view frame) {
    if (!is_about_terminal(frame))
        return fail(ErrorCode::Corrupt, "this message is not about a terminal");
    ROLL_TRY(const Json json, parse_json(frame.substr(kTerminalMark.size())));
    T message;
    ROLL_TRY_VOID(read_value(json, "terminal", message));
    return message;
}

}  // namespace

// clang-format off
template <class V, Like<TerminalStart> T> void fields(V& v, T& s) {
    v("program", s.program); v("command", s.command); v("terminal", s.terminal); v("term", s.term); v("owns", s.owns);
}
template <class V, Like<TerminalOrder> T> void fields(V& v, T& o) {
    v("id", o.terminal); v("attempt", o.attempt); v("limit", o.limit); v("at", o.at); v.added("start", o.start);
    add_base64(v, "input", o.input); v.added("end", o.end_of_input); v.added("close", o.close);
    v.added("rows", o.rows); v.added("columns", o.columns);
}
template <class V, Like<TerminalNews> T> void fields(V& v, T& n) {
    v("id", n.terminal); v("at", n.at); v("taken", n.taken); add_base64(v, "output", n.output);
    v.added("errors", n.errors); v.added("exit", n.exit); v.added("trouble", n.trouble);
}
// clang-format on

std::string encode(const TerminalOrder& order) { return frame_of(order); }

std::string encode(const TerminalNews& news) { return frame_of(news); }

Result<TerminalOrder> decode_terminal_order(std::string_view frame) {
    return message_of<TerminalOrder>(frame);
}

Result<TerminalNews> decode_terminal_news(std::string_view frame) {
    return message_of<TerminalNews>(frame);
}

}  // namespace roll::protocol
