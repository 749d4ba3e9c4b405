// The end of a program that met what nobody expected: one sentence instead of a core dump.
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
