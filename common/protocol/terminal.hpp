// The messages between rolld and a roll-worker about terminals in jobs (`rollctl shell`). Only a
// worker with the feature `shell` gets these messages. The messages use the same connection as
// heartbeats and answers. They begin with kTerminalMark, so that neither side takes them for a
// heartbeat or an answer. A release without terminals ignores these messages.
//
// Neither side sends more data than the receiver can buffer. A worker sends output only up to the
// position TerminalOrder::limit. A client sends input only up to kTerminalWindow bytes beyond
// TerminalNews::taken. Each message with data has the position of the data in its stream. A gap
// between positions means that a message was lost. The terminal then ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"

namespace roll::protocol {

constexpr std::string_view kTerminalMark = "terminal ";
// Maximum number of bytes of each stream that are held between the program and the client
constexpr std::size_t kTerminalWindow = 64 << 10;
// Maximum time between two messages which show that a client still exists. rolld passes these
// messages on to the worker. If no such message arrives for this time, the worker ends the
// terminal's processes.
constexpr std::chrono::seconds kTerminalPatience{30};

inline bool is_about_terminal(std::string_view frame) { return frame.starts_with(kTerminalMark); }

// Starts a program in a running attempt.
struct TerminalStart {
    // Index of one of the attempt's programs on this worker. The new program gets the environment
    // of that program.
    int program = 0;
    std::vector<std::string> command{};  // program and arguments; empty: the user's shell
    bool terminal = false;  // true: the program gets a terminal; false: it gets three pipes
    std::string term{};     // value of TERM; empty: not set
    // True: when the program ends, the attempt ends with the program's exit status
    bool owns = false;
    friend bool operator==(const TerminalStart&, const TerminalStart&) = default;
};

// From rolld to a worker. Each order also shows that the client still exists.
struct TerminalOrder {
    std::uint64_t terminal = 0;
    AttemptKey attempt{};
    std::optional<TerminalStart> start{};
    // maximum number of output bytes that the worker may send, counted from the start of the
    // program
    std::uint64_t limit = 0;
    std::uint64_t at = 0;  // position of `input` in the stream
    std::string input{};
    bool end_of_input = false;
    bool close = false;         // true: ends the program
    int rows = 0, columns = 0;  // new size of the terminal; 0: unchanged
    friend bool operator==(const TerminalOrder&, const TerminalOrder&) = default;
};

// Messages from a worker to rolld.
struct TerminalNews {
    std::uint64_t terminal = 0;
    std::uint64_t at = 0;  // position of `output` in the combined output of both streams
    std::string output{};
    bool errors = false;        // `output` is from standard error
    std::uint64_t taken = 0;    // number of input bytes that the program's terminal has taken
    std::optional<int> exit{};  // exit status as in a shell; set in the last message
    std::string trouble{};      // why the terminal ended without an exit status
    friend bool operator==(const TerminalNews&, const TerminalNews&) = default;
};

std::string encode(const TerminalOrder& order);
std::string encode(const TerminalNews& news);
Result<TerminalOrder> decode_terminal_order(std::string_view frame);
Result<TerminalNews> decode_terminal_news(std::string_view frame);

}  // namespace roll::protocol
