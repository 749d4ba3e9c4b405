// Asks what the terminal can do. Apart from other code, because <term.h> defines macros such as
// `columns` and `lines`.
#pragma once

namespace roll::cli::top {

// Returns whether TERM names a known type of terminal on which the cursor can be moved.
bool can_move_cursor();

}  // namespace roll::cli::top
