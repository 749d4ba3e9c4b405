#include "cli/top/terminal.hpp"

#include <curses.h>
#include <term.h>
#include <unistd.h>

namespace roll::cli::top {

bool can_move_cursor() {
    int error = 0;
    return setupterm(nullptr, STDOUT_FILENO, &error) == OK && cursor_address != nullptr;
}

}  // namespace roll::cli::top
