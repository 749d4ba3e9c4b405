// How a program ends when something went wrong.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>

#include "common/error.hpp"

namespace roll {

// Prints the error on stderr: "PROGRAM: MESSAGE", then "  next: HINT" if the error has a hint.
// Returns the exit status.
inline int end_with(const char* program, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.message.c_str());
    if (!error.hint.empty()) std::fprintf(stderr, "  next: %s\n", error.hint.c_str());
    return exit_code(error.code);
}

// Runs a program. If the program throws an unexpected exception, prints one line on stderr and
// returns 1, so that no core is dumped. std::filesystem throws if a path cannot be looked up, for
// example in a directory that the user must not enter.
template <class Run>
int with_last_resort(const char* program, Run run) {
    try {
        return run();
    } catch (const std::filesystem::filesystem_error& e) {
        std::fprintf(stderr, "%s: cannot use %s: %s\n", program, e.path1().c_str(),
                     e.code().message().c_str());
        return 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", program, e.what());
        return 1;
    }
}

}  // namespace roll
