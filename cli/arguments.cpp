#include "cli/arguments.hpp"

#include <algorithm>
#include <array>

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

int words_before_program(int argc, char** argv) {
    char** const end = argv + argc;
    char** const dashes =
        std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
    const bool takes_program = std::any_of(argv, dashes, [](const char* word) {
        return std::string_view(word) == "submit" || std::string_view(word) == "shell";
    });
    return takes_program ? static_cast<int>(dashes - argv) : argc;
}

bool returns_job_status(int argc, char** argv) {
    static constexpr std::array<std::string_view, 5> kQueue = {"submit", "resume", "resubmit",
                                                               "convert", "merge"};
    const std::string_view asked = first_word(argc, argv);
    const bool watches = has_flag(argc, argv, "--wait") || has_flag(argc, argv, "--follow");
    return asked == "wait" || asked == "shell" ||
           (watches && std::ranges::find(kQueue, asked) != kQueue.end());
}

}  // namespace roll::cli
