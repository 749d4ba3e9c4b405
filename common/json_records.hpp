// Finds the records of a data file. A .jsonl has one JSON value in each line. A .json has a list of
// values or, as some programs write it, also one value in each line. Nothing is parsed here: the
// text of a record may be damaged.
#pragma once

#include <cstddef>
#include <string_view>

namespace roll {

// Returns whether the text begins with a list.
bool is_json_list(std::string_view text);

struct JsonRecord {
    std::string_view text;  // record without list marks and spaces around it; may be empty
    std::size_t end = 0;    // position at which the next record begins
};

// Returns the record that begins at `at`: 0, or the end of another record. `list` says whether the
// text is a list; otherwise, the record is a line. Requires at < text.size().
JsonRecord record_at(std::string_view text, bool list, std::size_t at);

// Returns the first record that is not empty; an empty text if there is none.
std::string_view first_record(std::string_view text, bool list);

}  // namespace roll
