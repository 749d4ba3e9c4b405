// Measures and cuts UTF-8 text by the columns that it takes on a terminal. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace roll::cli {

// Returns how many columns the text takes: 2 for wide characters (Chinese, Japanese, Korean,
// emoji), 0 for combining marks.
std::size_t columns_of(std::string_view text);

// Returns the first characters of the text that together take at most `columns` columns.
std::string first_columns(std::string_view text, std::size_t columns);

// Like first_columns(), but a text that is cut ends with "+", as in the tables of Slurm.
std::string fit_text(std::string_view text, std::size_t columns);

// Returns the text padded with spaces to `columns` columns, and not cut.
std::string pad_text(std::string text, std::size_t columns, bool right = false);

// Returns the text without control characters and without escape sequences of terminals, which
// could change the screen. Replaces a tab by spaces up to the next multiple of 8.
std::string harmless(std::string_view text);

}  // namespace roll::cli
