// The option -o of `jobs`, `nodes` and `alloc list`. It takes a list of fields for a table,
// "id,name,state"; a pattern for one line per row, "{id} {name:<20} {state:.4}"; or the name that
// formats.yaml gives to one of these.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Describes a kind of rows.
struct Fields {
    std::string row;  // name of one row in messages, such as "a job"
    // Key under which formats.yaml holds the named formats for these rows, such as "jobs".
    std::string list;
    std::vector<std::string> known;  // the fields' names
};

// A part of a pattern: literal text, then a field. The last part may have no field.
struct Part {
    std::string text{};
    std::string field{};
    char align = '<';  // alignment: '<', '>' or '^'
    std::size_t width = 0;
    std::optional<std::size_t> most{};  // cut longer values to this many characters
};

// A parsed value of the option -o. Without fields, the list prints its default table.
struct Format {
    std::vector<std::string> fields{};  // "resources.nodes" is a key inside the field `resources`
    std::vector<Part> pattern{};        // empty for a table of `fields`
};

// Reads a list of fields, a pattern, or else a name from `file`. Fails with InvalidArgument on an
// unknown field (and lists the fields) or a malformed pattern.
Result<Format> parse_format(const std::string& text, const Fields& fields, const std::string& file);

// Returns ROLL_FORMATS, else the path of formats.yaml in the user's configuration directory.
std::string formats_file();

// Returns the text that `-o help` prints: the fields and the named formats in `file`.
Result<std::string> format_help(const Fields& fields, const std::string& file);

// Formats the rows. `cell` returns the text of a row's field; `color` as in table().
std::string rows_text(const Format& format, const Json& rows, bool color,
                      const std::function<std::string(const Json&, const std::string&)>& cell);

// Returns a field of a row as text; "a.b" is the key b inside the field a.
std::string deep_field_text(const Json& row, const std::string& field);

}  // namespace roll::cli
