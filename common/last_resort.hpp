// Runs a program. If the program throws an unexpected exception, prints one line on stderr and
// returns 1, so that no core is dumped.
#pragma once

#include <cstdio>
#include <exception>

namespace roll {

template <class Run>
int with_last_resort(const char* program, Run run) {
    try {
        return run();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", program, e.what());
        return 1;
    }
}

}  // namespace roll
