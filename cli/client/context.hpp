// The data that all commands use: the state directory, and how to print. Commands write data to
// stdout, and messages for people to stderr.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

enum class Color { Auto, Always, Never };

struct Context {
    std::string directory;  // value of --dir; empty: the default directory
    bool json = false;
    bool parsable = false;
    bool color = false;     // stdout may be coloured
    bool terminal = false;  // stdout is a terminal, so a line may be overwritten
};

// Sets `color` and `terminal` of the context from the option --color, the variable NO_COLOR, and
// whether stdout is a terminal.
void look_at_stdout(Context& context, Color color);

// The size of the terminal on stdout; 80 x 24 if stdout is not a terminal.
struct TerminalSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};
TerminalSize terminal_size();

// If stdout is a terminal, breaks a line that is too long for the terminal at spaces.
std::string for_terminal(const Context& context, const std::string& line);

void print_json(const Json& value);  // prints JSON with indentation
// Prints JSON on one line, for output with several values. If the value has no field "schema", adds
// this field with the value `schema`.
void print_json_line(Json value, const char* schema);
// Writes text to stdout and flushes it. Removes control characters with printable(), because the
// text may contain words of other users.
void print(const std::string& text);
void print_bytes(const std::string& bytes);  // like print(), but keeps control characters
// Returns the exit status of the program: 1 if `status` is 0 and a print() or print_bytes() has
// failed, else `status`. Reports a failed print() on stderr.
int check_stdout(int status);
void say(const std::string& text);  // prints a line to stderr, as print() does
void print_error(const Context& context, const Error& error);

void pause(std::chrono::milliseconds duration);

}  // namespace roll::cli
