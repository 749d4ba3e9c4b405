// How the rows of a list are printed: -o of `jobs`, `nodes` and `alloc list`. Either a table of
// fields, "id,name,state", or a line a row after a pattern, "{id} {name:<20} {state:.4}", or the
// name of one of these in formats.yaml.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// What rows there are, and what they have.
struct Fields {
    std::string row;   // "a job"
    std::string list;  // "jobs": where formats.yaml has the names of its formats
    std::vector<std::string> known;
};

// Text, and after it a field; the last part of a pattern may have none.
struct Part {
    std::string text{};
    std::string field{};
    char align = '<';  // or '>', '^'
    std::size_t width = 0;
    std::optional<std::size_t> most{};  // what is longer is cut
};

// Nothing: the list's own table.
struct Format {
    std::vector<std::string> fields{};  // "resources.nodes": a key of a field that is a mapping
    std::vector<Part> pattern{};        // empty: a table of the fields
};

// Error InvalidArgument: a field that such a row does not have (with those that it has), a pattern
// that is none. Names are looked up in `file` once all else has failed.
Result<Format> parse_format(const std::string& text, const Fields& fields, const std::string& file);

// ROLL_FORMATS, else formats.yaml of the user's own configuration.
std::string formats_file();

// What -o help prints: the fields, and the names in `file`.
Result<std::string> format_help(const Fields& fields, const std::string& file);

// `cell` makes the text of a row's field. Colour: as table().
std::string rows_text(const Format& format, const Json& rows, bool color,
                      const std::function<std::string(const Json&, const std::string&)>& cell);

// A field of a row for people; of "a.b" the key b of its field a.
std::string deep_field_text(const Json& row, const std::string& field);

}  // namespace roll::cli
