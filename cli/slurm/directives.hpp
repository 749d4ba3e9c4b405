// Reads the #SBATCH lines of a batch script by sbatch's own rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::cli {

// A word of an #SBATCH line, and the number of the line.
struct DirectiveWord {
    std::string text;
    int line = 0;
    friend bool operator==(const DirectiveWord&, const DirectiveWord&) = default;
};

// Returns whether the head of the script has a line that starts with #SBATCH. The head ends at the
// first line that is neither empty nor a comment.
bool has_directives(std::string_view script);

// Returns the words of all #SBATCH lines at the script's head, separated by blanks. Quotes (' and
// ") keep blanks inside a word, a backslash makes the next character part of the word, and # starts
// a comment. Fails with InvalidArgument if a quote is unmatched, if the lines describe parts of a
// heterogeneous job, or if the script has DOS line breaks.
Result<std::vector<DirectiveWord>> directive_words(std::string_view script,
                                                   const std::string& file);

}  // namespace roll::cli
