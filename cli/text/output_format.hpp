// The option -o of `jobs`, `nodes` and `alloc list`. Its value is one of: a list of fields for a
// table, such as "id,name,state"; a pattern for one line per row, such as "{id} {name:<20}
// {state:.4}"; or the name of a list or pattern in formats.yaml.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Describes the rows that one command prints.
struct Fields {
    std::string row;  // name of one row, for messages: "a job"
    // Key in formats.yaml under which the formats for these rows are listed, such as "jobs".
    std::string list;
    std::vector<std::string> known;  // names of the fields that a row has
};

// A part of a pattern: literal text followed by a field. The last part may have no field.
struct Part {
    std::string text{};
    std::string field{};
    char align = '<';  // alignment: '<', '>' or '^'
    std::size_t width = 0;
    std::optional<std::size_t> most{};  // maximum number of columns; a longer value is cut
};

// A parsed value of the option -o. If it has no fields, the command prints its default table.
struct Format {
    // Names of fields. A name such as "resources.nodes" is a key inside the field `resources`.
    std::vector<std::string> fields{};
    std::vector<Part> pattern{};  // parts of the pattern; empty: print `fields` as a table
};

// Parses the value of -o: a list of fields, a pattern, or the name of a format in `file`. Fails
// with InvalidArgument if a pattern is malformed or a field is unknown. For an unknown field, the
// message lists all fields.
Result<Format> parse_format(const std::string& text, const Fields& fields, const std::string& file);

// Returns the path in ROLL_FORMATS. If this variable is not set, returns the path of formats.yaml
// in the user's configuration directory.
std::string formats_file();

// Returns the text of `-o help`: the fields of the rows, and the named formats in `file`.
Result<std::string> format_help(const Fields& fields, const std::string& file);

// Formats the rows in this format. cell(row, field) returns the text of a field. `color` is passed
// to table().
std::string rows_text(const Format& format, const Json& rows, bool color,
                      const std::function<std::string(const Json&, const std::string&)>& cell);

// Returns the text of a row's field. A field "a.b" is the key b inside the field a.
std::string deep_field_text(const Json& row, const std::string& field);

}  // namespace roll::cli
