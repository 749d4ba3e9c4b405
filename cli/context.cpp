#include "cli/context.hpp"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/protocol/client.hpp"

namespace roll::cli {

void look_at_stdout(Context& context, Color color) {
    context.terminal = ::isatty(STDOUT_FILENO) == 1;
    const char* no_color = std::getenv("NO_COLOR");
    const bool wanted = context.terminal && (no_color == nullptr || *no_color == '\0');
    context.color = color == Color::Always || (color == Color::Auto && wanted);
}

TerminalSize terminal_size() {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        return {};
    return {size.ws_col, size.ws_row};
}

void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

void print_json(const Json& value) {
    print(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_json_line(Json value, const char* schema) {
    if (value.is_object() && !value.contains("schema")) value["schema"] = schema;
    print(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void say(const std::string& text) { fmt::print(stderr, "{}\n", text); }

void print_error(const Context& context, const Error& error) {
    if (context.json) {
        print_json(protocol::error_json(error));
        return;
    }
    say("rollctl: " + error.message);
    if (!error.hint.empty()) say("  next: " + error.hint);
}

void pause(std::chrono::milliseconds duration) {
    ::poll(nullptr, 0, static_cast<int>(duration.count()));
}

}  // namespace roll::cli
