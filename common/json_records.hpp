// Finds the records of a data file. A .jsonl has one JSON value in each line. A .json has a list of
// values. Some programs write .json files that have one value in each line, like .jsonl files. The
// values are not parsed, so the text of a record may be invalid JSON.
#pragma once

#include <cstddef>
#include <string_view>

namespace roll {

// Returns whether the text begins with a list.
bool is_json_list(std::string_view text);

struct JsonRecord {
    // Text of the record, without the commas and brackets of the list, and without spaces at both
    // ends. May be empty.
    std::string_view text;
    std::size_t end = 0;  // position at which the next record begins
};

// Returns the record at the offset `at`. `at` is 0 for the first record, and `end` of the previous
// record for each other record. If `list` is true, the records are the values of a list; otherwise,
// each line is a record. Requires at < text.size().
JsonRecord record_at(std::string_view text, bool list, std::size_t at);

// Returns the first record that is not empty; an empty text if there is none.
std::string_view first_record(std::string_view text, bool list);

}  // namespace roll
