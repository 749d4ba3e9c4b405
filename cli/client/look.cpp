#include "cli/client/look.hpp"

namespace roll::cli {

Look look_of(const Context& context) {
    return {wall_clock_now(), context.color, context.terminal,
            context.terminal ? terminal_size().columns : 0};
}

}  // namespace roll::cli
