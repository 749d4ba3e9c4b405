#include "cli/text/output_format.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/text/render.hpp"
#include "cli/text/text_width.hpp"
#include "common/files.hpp"
#include "common/number.hpp"
#include "common/spec/schema/nearest.hpp"
#include "common/split.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::cli {
namespace {

std::string base_of(const std::string& field) { return field.substr(0, field.find('.')); }

bool is_known(const std::string& field, const Fields& fields) {
    return std::ranges::find(fields.known, base_of(field)) != fields.known.end();
}

tl::unexpected<Error> no_such_field(const std::string& text, const std::string& field,
                                    const Fields& fields) {
    return fail(
        ErrorCode::InvalidArgument,
        fmt::format("-o {}: {} has no field {}{}", text, fields.row, field,
                    spec::did_you_mean(base_of(field), fields.known)),
        fmt::format("separate the fields by commas, or put each field in braces; fields: {}",
                    fmt::join(fields.known, ", ")));
}

// Parses the text after the colon of a field, such as ">8", ".20" or "^10.4". The text has an
// alignment, a minimum width and a maximum width. Each of the three may be missing.
bool read_shape(std::string_view shape, Part& part) {
    if (!shape.empty() && std::string_view("<>^").find(shape[0]) != std::string_view::npos) {
        part.align = shape[0];
        shape.remove_prefix(1);
    }
    constexpr std::size_t kMost = 1000;
    const std::size_t dot = std::min(shape.find('.'), shape.size());
    if (dot > 0) {
        const auto width = parse_number<std::size_t>(shape.substr(0, dot));
        if (!width || *width > kMost) return false;
        part.width = *width;
    }
    if (dot == shape.size()) return true;
    part.most = parse_number<std::size_t>(shape.substr(dot + 1));
    return part.most.has_value();
}

// Parses the text between braces: a field such as "id" or "name:<20".
Result<void> read_field(const std::string& text, std::string_view inner, const Fields& fields,
                        Part& part) {
    const std::size_t colon = std::min(inner.find(':'), inner.size());
    part.field = inner.substr(0, colon);
    if (!is_known(part.field, fields)) return no_such_field(text, part.field, fields);
    if (colon < inner.size() && !read_shape(inner.substr(colon + 1), part)) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("-o {}: {{{}}} is not a valid field", text, inner),
                    "allowed: {FIELD}, {FIELD:<20} (or > or ^) to pad to 20 columns, "
                    "{FIELD:.8} to cut to 8");
    }
    return {};
}

Result<Format> read_pattern(const std::string& text, const Fields& fields) {
    Format format;
    format.pattern.emplace_back();
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
        Part& part = format.pattern.back();
        if ((text[i] != '{' && text[i] != '}') || doubled) {
            part.text += text[i];
            i += doubled && (text[i] == '{' || text[i] == '}') ? 1 : 0;
            continue;
        }
        const std::size_t end = text.find('}', i);
        if (text[i] == '}' || end == std::string::npos) {
            return fail(ErrorCode::InvalidArgument, fmt::format("-o {}: unmatched brace", text),
                        "write {{ and }} for literal braces");
        }
        ROLL_TRY_VOID(
            read_field(text, std::string_view(text).substr(i + 1, end - i - 1), fields, part));
        format.fields.push_back(part.field);
        format.pattern.emplace_back();
        i = end;
    }
    return format;
}

Result<std::map<std::string, std::string>> names_in(const std::string& file, const Fields& fields) {
    std::map<std::string, std::string> names;
    if (file.empty() || !path_exists(file)) return names;
    ROLL_TRY(const std::string text, read_file(file));
    ROLL_TRY(const std::vector<Json> documents, yaml::read(text, file));
    const Json all = documents.front();
    const Json list = all.is_object() ? all.value(fields.list, Json::object()) : Json();
    const bool texts = list.is_object() &&
                       std::ranges::all_of(list, [](const Json& one) { return one.is_string(); });
    if (!texts) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}: {} is not a mapping from names to formats", file, fields.list),
                    fmt::format("for example {}: {{short: \"{{{}}}\"}}", fields.list,
                                fields.known.front()));
    }
    for (const auto& [name, format] : list.items()) names[name] = format.get<std::string>();
    return names;
}

Result<Format> read_list(const std::string& text, const Fields& fields) {
    Format format;
    format.fields = split_at(text, ',');
    for (const std::string& field : format.fields)
        if (!is_known(field, fields)) return no_such_field(text, field, fields);
    return format;
}

std::string shaped(std::string text, const Part& part) {
    if (part.most) text = first_columns(text, *part.most);
    const std::size_t columns = columns_of(text);
    const std::size_t missing = part.width > columns ? part.width - columns : 0;
    const std::size_t before = part.align == '<' ? 0 : part.align == '>' ? missing : missing / 2;
    return std::string(before, ' ') + text + std::string(missing - before, ' ');
}

}  // namespace

std::string formats_file() {
    const auto set = [](const char* name) {
        const char* const value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    if (const std::string file = set("ROLL_FORMATS"); !file.empty()) return file;
    const std::string config = set("XDG_CONFIG_HOME");
    return (config.empty() ? set("HOME") + "/.config" : config) + "/roll/formats.yaml";
}

Result<Format> parse_format(const std::string& text, const Fields& fields,
                            const std::string& file) {
    if (text.empty()) return Format{};
    if (text.find('{') != std::string::npos) return read_pattern(text, fields);
    auto format = read_list(text, fields);
    if (format || text.find(',') != std::string::npos) return format;
    ROLL_TRY(const auto names, names_in(file, fields));
    const auto named = names.find(text);
    if (named == names.end()) return format;
    const bool pattern = named->second.find('{') != std::string::npos;
    return pattern ? read_pattern(named->second, fields) : read_list(named->second, fields);
}

Result<std::string> format_help(const Fields& fields, const std::string& file) {
    ROLL_TRY(const auto names, names_in(file, fields));
    std::string text = fmt::format("fields of {}: {}\n", fields.row, fmt::join(fields.known, ", "));
    for (const auto& [name, format] : names) text += fmt::format("{}: {}\n", name, format);
    return text;
}

std::string rows_text(const Format& format, const Json& rows, bool color,
                      const std::function<std::string(const Json&, const std::string&)>& cell) {
    if (!format.pattern.empty()) {
        std::string text;
        for (const Json& row : rows) {
            for (const Part& part : format.pattern)
                text += part.text + (part.field.empty() ? "" : shaped(cell(row, part.field), part));
            text += "\n";
        }
        return text;
    }
    std::vector<Column> columns;
    for (const std::string& field : format.fields) columns.push_back({field});
    std::vector<std::vector<std::string>> cells;
    for (const Json& row : rows) {
        auto& line = cells.emplace_back();
        for (const std::string& field : format.fields) line.push_back(cell(row, field));
    }
    return table(columns, cells, color);
}

std::string deep_field_text(const Json& row, const std::string& field) {
    const std::size_t dot = field.find('.');
    if (dot == std::string::npos || !row.is_object()) return field_text(row, field);
    return deep_field_text(row.value(field.substr(0, dot), Json()), field.substr(dot + 1));
}

}  // namespace roll::cli
