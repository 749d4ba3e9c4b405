// Finds the abilities of the terminal. This code is in a separate file, because <term.h> defines
// macros such as `columns` and `lines`.
#pragma once

namespace roll::cli::top {

// Returns whether TERM names a known type of terminal that can move the cursor.
bool can_move_cursor();

}  // namespace roll::cli::top
