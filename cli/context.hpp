// What every command is given: where the daemon is and how to print. stdout is data, stderr is
// talk.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

enum class Color { Auto, Always, Never };

struct Context {
    std::string directory;  // --dir; empty: the default
    bool json = false;
    bool parsable = false;
    bool color = false;     // stdout may be coloured
    bool terminal = false;  // stdout is a terminal: a line may be overwritten
};

// Colour and terminal as the flag, NO_COLOR and stdout say.
void look_at_stdout(Context& context, Color color);

// Columns and rows of the terminal that stdout is; 80 x 24 if it is none.
struct TerminalSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};
TerminalSize terminal_size();

void print_json(const Json& value);  // indented, for one value
// On one line, for streams; each value says what it is.
void print_json_line(Json value, const char* schema);
void print(const std::string& text);  // to stdout, and flushed
// The exit status: `status`, or 1 if that is 0 and a print() failed, which it says on stderr.
int check_stdout(int status);
void say(const std::string& text);  // a line to stderr
void print_error(const Context& context, const Error& error);

void pause(std::chrono::milliseconds duration);

}  // namespace roll::cli
