#include "cli/job/toml_file.hpp"

#include <sstream>

#include <fmt/format.h>

// Compile toml++ into rollctl: loading one more shared library would slow down every start.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace roll::cli {
namespace {

class Reader {
  public:
    TomlFile file{};

    Json read(const toml::node& node, const std::string& path) {
        if (const auto* table = node.as_table()) return mapping(*table, path);
        if (const auto* array = node.as_array()) {
            Json list = Json::array();
            for (std::size_t i = 0; i < array->size(); ++i)
                list.push_back(read(*array->get(i),
                                    note(fmt::format("{}[{}]", path, i), array->get(i)->source())));
            return list;
        }
        if (const auto* text = node.as_string()) return text->get();
        if (const auto* whole = node.as_integer())
            return whole->get() < 0 ? Json(whole->get())
                                    : Json(static_cast<std::uint64_t>(whole->get()));
        if (const auto* real = node.as_floating_point()) return real->get();
        if (const auto* truth = node.as_boolean()) return truth->get();
        std::ostringstream when;  // text of a date, a time or both
        node.visit([&](const auto& value) {
            if constexpr (toml::is_chronological<decltype(value)>) when << value.get();
        });
        return when.str();
    }

  private:
    std::string note(std::string path, const toml::source_region& at) {
        file.lines[path] = static_cast<int>(at.begin.line);
        return path;
    }

    Json mapping(const toml::table& table, const std::string& path) {
        Json object = Json::object();
        for (const auto& [key, value] : table) {
            const std::string name(key.str());
            object[name] = read(value, note(path.empty() ? name : path + "." + name, key.source()));
        }
        return object;
    }
};

}  // namespace

Result<TomlFile> read_toml(const std::string& text, const std::string& file) {
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}:{}: not TOML: {}", file, parsed.error().source().begin.line,
                                parsed.error().description()));
    Reader reader;
    reader.file.document = reader.read(parsed.table(), "");
    return std::move(reader.file);
}

}  // namespace roll::cli
