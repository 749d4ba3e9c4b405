// The operations on a terminal in a running job: their arguments and replies. A terminal belongs to
// the user who opened it and exists only while this rolld runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct ShellOpenArgs {
    static constexpr Operation kOperation{"shell_open", Access::Change, Answering::AtOnce,
                                          "roll.shell/1", "Runs a program in a running job."};
    std::uint64_t id = 0;
    std::optional<int> rank{};
    std::string node{};
    std::vector<std::string> command{};
    bool terminal = false;
    std::string term{};
    int rows = 0;
    int columns = 0;
    bool owns = false;
};
struct ShellOpenReply {
    std::uint64_t terminal = 0;
    std::string node{};
};
struct ShellWriteArgs {
    static constexpr Operation kOperation{"shell_write", Access::Change, Answering::AtOnce,
                                          "roll.shell_write/1",
                                          "Sends input or a new size to a program in a job."};
    std::uint64_t terminal = 0;
    std::uint64_t at = 0;
    std::string data{};
    bool end = false;
    int rows = 0;
    int columns = 0;
    bool close = false;
};
struct ShellWriteReply {
    std::uint64_t taken = 0;
};
struct ShellReadArgs {
    static constexpr Operation kOperation{"shell_read", Access::Change, Answering::Later,
                                          "roll.shell_read/1",
                                          "Waits for output of a program in a job."};
    std::uint64_t terminal = 0;
    std::uint64_t from = 0;
    int wait_ms = 0;
};

// clang-format off
template <class V> void fields(V& v, ShellOpenArgs& a) {
    v.needs("id", a.id, "number of the job");
    v("rank", a.rank, "the program runs on the node and with the environment of this rank [0]");
    v("node", a.node, "name of the node, or its index among the job's nodes, from 0");
    v("command", a.command, "program and arguments; default: a shell");
    v("terminal", a.terminal, "whether the program gets a terminal");
    v("term", a.term, "value of TERM");
    v("rows", a.rows, "height of the terminal");
    v("columns", a.columns, "width of the terminal");
    v("owns", a.owns, "true: when the program ends, the job also ends, with the program's exit status");
}
template <class V> void fields(V& v, ShellOpenReply& r) {
    v("terminal", r.terminal, "number of the terminal"); v("node", r.node, "name of the node");
}
template <class V> void fields(V& v, ShellWriteArgs& a) {
    v.needs("terminal", a.terminal, "number of the terminal");
    v("at", a.at, "position of `data` in the input, in bytes");
    v("data", a.data, "input, in base64");
    v("end", a.end, "true: the input ends after `data`");
    v("rows", a.rows, "new height");
    v("columns", a.columns, "new width");
    v("close", a.close, "whether to end the program");
}
template <class V> void fields(V& v, ShellWriteReply& r) { v("taken", r.taken, "bytes of input that the program has taken"); }
template <class V> void fields(V& v, ShellReadArgs& a) {
    v.needs("terminal", a.terminal, "number of the terminal");
    v("from", a.from, "number of bytes of output received so far");
    v("wait_ms", a.wait_ms, "longest wait for output, in ms");
}
// clang-format on

}  // namespace roll::protocol
