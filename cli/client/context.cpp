#include "cli/client/context.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/text/text_width.hpp"
#include "common/protocol/client.hpp"
#include "common/wrapped.hpp"

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

std::string for_terminal(const Context& context, const std::string& line) {
    constexpr std::size_t kIndent = 5;
    return context.terminal ? wrapped(line, terminal_size().columns, kIndent) : line;
}

namespace {

int print_errno = 0;  // errno of the first print() that failed; 0: none

// Shortens each word that is longer than kLongest bytes. Otherwise a value of 90,000 digits would
// hide the rest of a message.
std::string with_short_words(std::string_view text) {
    constexpr std::size_t kLongest = 1000;
    constexpr std::size_t kShown = 60;
    std::string all;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
        const std::string_view word = text.substr(0, end);
        const bool has_mark = word.ends_with(';') || word.ends_with(',') || word.ends_with(':');
        if (word.size() <= kLongest)
            all += word;
        else
            all += fmt::format("{}... ({} bytes){}", word.substr(0, kShown), word.size(),
                               has_mark ? word.substr(word.size() - 1) : "");
        if (end < text.size()) all += text[end];
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return all;
}

}  // namespace

void print(const std::string& text) { print_bytes(printable(text)); }

void print_bytes(const std::string& bytes) {
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
    if ((std::fflush(stdout) != 0 || !written) && print_errno == 0) print_errno = errno;
}

int check_stdout(int status) {
    // Check std::cout, too, because CLI11 prints --help there.
    if (print_errno == 0 && !std::cout.flush()) print_errno = EIO;
    if (print_errno == 0) return status;
    say(fmt::format("rollctl: cannot write to standard output: {}; the command itself {}",
                    std::generic_category().message(print_errno),
                    status == 0 ? "succeeded" : "failed"));
    say("  next: if you submitted jobs, `rollctl jobs` and `rollctl show last` list them");
    return status == 0 ? 1 : status;
}

void print_json(const Json& value) {
    print(escaped_json(value.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n");
}

void print_json_line(Json value, const char* schema) {
    if (value.is_object() && !value.contains("schema")) value["schema"] = schema;
    print(escaped_json(value.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n");
}

void say(const std::string& text) { fmt::print(stderr, "{}\n", printable(text)); }

void print_error(const Context& context, const Error& whole) {
    const Error error{whole.code, with_short_words(whole.message), with_short_words(whole.hint)};
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
