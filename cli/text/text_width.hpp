// Measures and cuts UTF-8 text by the number of columns that it takes on a terminal. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace roll::cli {

// Returns the number of columns that the text takes. Wide characters (Chinese, Japanese, Korean,
// emoji) take 2 columns, and combining marks take none.
std::size_t columns_of(std::string_view text);

// Returns the longest beginning of the text that takes at most `columns` columns.
std::string first_columns(std::string_view text, std::size_t columns);

// Like first_columns(), but if the text is cut, the result ends with "+", as in the tables of
// Slurm.
std::string fit_text(std::string_view text, std::size_t columns);

// Returns the text padded with spaces to `columns` columns. Does not cut a longer text. Puts the
// spaces before the text if `right`.
std::string pad_text(std::string text, std::size_t columns, bool right = false);

// Returns the lines of the text without the characters that end lines.
std::vector<std::string> lines_of(const std::string& text);

// Returns the text as one line without control characters and without escape sequences, because
// these could change the screen. Replaces a tab by spaces up to the next multiple of 8, and the end
// of a line inside the text by a space.
std::string harmless(std::string_view text);

// The control characters that printable() keeps.
enum class Keep {
    Lines,     // ends of lines, tabs, and escape sequences that set colours
    Progress,  // also the characters with which progress bars write over their own line
};

// Returns the text without the control characters and escape sequences that `keep` does not name.
// Text of jobs and of other users then cannot move the cursor, clear the screen or rename the
// window.
std::string printable(std::string_view text, Keep keep = Keep::Lines);

// Returns a JSON text in which U+007F to U+009F are escaped. Strings may have these control
// characters as they are, but printable() would leave them out.
std::string escaped_json(std::string_view text);

}  // namespace roll::cli
