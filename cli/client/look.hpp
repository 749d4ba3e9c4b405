// Determines how a command shows data to people. The result depends on stdout.
#pragma once

#include <cstddef>

#include "cli/client/context.hpp"
#include "common/time.hpp"

namespace roll::cli {

struct Look {
    Time now{};
    bool color = false;
    bool local = false;     // show times in the local zone, not in UTC
    std::size_t width = 0;  // maximum number of columns of a line; 0: no maximum
};

// Returns how to show data. On a terminal, times are local and tables fit the terminal's width.
Look look_of(const Context& context);

}  // namespace roll::cli
