// Maps each key of `rollctl top` to its effect. Pure.
#pragma once

#include <string>

#include "cli/top/model.hpp"

namespace roll::cli::top {

struct Key {
    enum Kind {
        Character,
        Up,
        Down,
        Left,
        Right,
        PageUp,
        PageDown,
        Home,
        End,
        Enter,
        Escape,
        Tab,
        BackTab,
        Backspace
    };
    Kind kind = Character;
    char character = 0;  // for Kind::Character: an ASCII character
};

// Actions of the program that a key requests, besides drawing.
struct Effect {
    bool quit = false;
    std::string cancel{};  // selector of jobs to cancel; empty: none
};

// Changes `ui` in response to the key. `canvas` is the size of the screen on which `data` is shown.
Effect press(Ui& ui, Key key, const Data& data, const Canvas& canvas);

}  // namespace roll::cli::top
