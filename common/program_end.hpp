// How a program ends when something went wrong.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "common/error.hpp"

namespace roll {

// Prints the error on stderr: "PROGRAM: MESSAGE", then "  next: HINT" if the error has a hint.
// Returns the exit status.
inline int end_with(const char* program, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.message.c_str());
    if (!error.hint.empty()) std::fprintf(stderr, "  next: %s\n", error.hint.c_str());
    return exit_code(error.code);
}

// Returns the exit status of a program whose output on stdout must be complete: `status`, or 1 if a
// part of the output could not be written, for example because the disk is full.
inline int check_output(const char* program, int status) {
    const bool failed = std::ferror(stdout) != 0;
    if (std::fflush(stdout) == 0 && !failed) return status;
    std::fprintf(stderr, "%s: cannot write to standard output: %s\n", program,
                 std::strerror(failed ? EIO : errno));
    return status == 0 ? 1 : status;
}

// Opens /dev/null in place of each standard stream that is closed. Otherwise a file that the
// program opens would get the number of this stream, and messages would be written into the file.
// Writes to a closed stdout still fail.
inline void replace_closed_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(stream, F_GETFD) < 0)
            ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

// Runs a program. If the program throws an unexpected exception, prints one line on stderr and
// returns 1, so that no core is dumped. std::filesystem throws if a path cannot be looked up, for
// example in a directory that the user must not enter.
template <class Run>
int with_last_resort(const char* program, Run run) {
    replace_closed_streams();
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
