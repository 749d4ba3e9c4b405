// The help of `rollctl top`.
#pragma once

#include <array>

namespace roll::cli::top {

// Keys, and a text that says what they do.
struct KeyHelp {
    const char* keys;
    const char* what;
};
inline constexpr std::array kKeyHelp = {
    KeyHelp{"Up Down j k", "select a row; scroll a job, a log or this help"},
    KeyHelp{"PgUp PgDn Home End g G", "move by a screen; move to the first or last row"},
    KeyHelp{"1 2 3, Tab", "show jobs, nodes or allocations; show the next page"},
    KeyHelp{"Enter", "open the job: attempts; curves of loss, speed and memory"},
    KeyHelp{"l", "follow the job's log"},
    KeyHelp{"c", "cancel the job, after a confirmation"},
    KeyHelp{"/", "show only rows that contain a text; Esc shows all"},
    KeyHelp{"s S", "sort by state, id, name, user or time; reverse the order"},
    KeyHelp{"a", "also list jobs that have ended"},
    KeyHelp{"r", "show each task of an array in a row of its own"},
    KeyHelp{"[ ]", "in a log: show the previous or next rank"},
    KeyHelp{"Left Right", "in a log: show the rest of long lines"},
    KeyHelp{"Esc", "back: from a log to its job, from a job to the list"},
    KeyHelp{"q Q", "q: back, or quit from a list; Q: quit"},
};

}  // namespace roll::cli::top
