#include "cli/arguments.hpp"

#include <algorithm>

namespace roll::cli {

bool has_flag(int argc, char** argv, std::string_view flag) {
    return std::any_of(argv, argv + argc, [&](const char* word) { return word == flag; });
}

std::string_view first_word(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (!word.starts_with("-")) return word;
        if (word == "--dir" || word == "--color") ++i;
    }
    return "";
}

}  // namespace roll::cli
