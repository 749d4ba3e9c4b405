#include "common/yaml/yaml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

namespace roll::yaml {
namespace {

constexpr int kDepthMax = 50;
constexpr int kNodesMax = 100000;  // maximum number of YAML nodes after aliases are expanded

// Removes leading digits from `text` and returns their number.
std::size_t take_digits(std::string_view& text) {
    const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(count);
    return count;
}

bool take_one_of(std::string_view& text, std::string_view allowed) {
    const bool taken = !text.empty() && allowed.find(text.front()) != allowed.npos;
    if (taken) text.remove_prefix(1);
    return taken;
}

enum class Number { None, Integer, Real };

// Returns whether a plain scalar is an integer, another number or no number. The scalar may be
// long, so std::regex, which recurses once per character, is not used.
Number kind_of(std::string_view text) {
    take_one_of(text, "-+");
    const std::size_t before = take_digits(text);
    if (text.empty()) return before > 0 ? Number::Integer : Number::None;
    std::size_t after = 0;
    if (take_one_of(text, ".")) after = take_digits(text);
    if (before + after == 0) return Number::None;
    if (take_one_of(text, "eE")) {
        take_one_of(text, "-+");
        if (take_digits(text) == 0) return Number::None;
    }
    return text.empty() ? Number::Real : Number::None;
}

Json number_or_string(const std::string& text) {
    const Number kind = kind_of(text);
    const char* first = text.data() + (text[0] == '+' ? 1 : 0);
    const char* last = text.data() + text.size();
    if (kind == Number::Integer) {
        std::int64_t whole = 0;
        if (std::from_chars(first, last, whole).ec == std::errc()) {
            return whole < 0 ? Json(whole) : Json(static_cast<std::uint64_t>(whole));
        }
    }
    if (kind != Number::None) {
        double real = 0;
        if (std::from_chars(first, last, real).ec == std::errc()) return real;
    }
    for (const auto& [prefix, base] : {std::pair("0x", 16), std::pair("0o", 8)}) {
        std::uint64_t whole = 0;
        if (!text.starts_with(prefix) || text.size() < 3) continue;
        const auto [end, error] = std::from_chars(first + 2, last, whole, base);
        if (error == std::errc() && end == last) return whole;
    }
    return text;
}

Json scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() != "?") return text;  // a quoted scalar is a string
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
        return nullptr;
    }
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    return number_or_string(text);
}

class Reader {
  public:
    explicit Reader(const std::string& file) : file_(file) {}

    Result<Json> read(const YAML::Node& node, int depth) {
        if (depth > kDepthMax || ++nodes_ > kNodesMax) {
            return problem(
                node, "the value is nested too deeply, or its aliases expand to too many values");
        }
        switch (node.Type()) {
            case YAML::NodeType::Undefined:
            case YAML::NodeType::Null: return Json();
            case YAML::NodeType::Scalar: return scalar(node);
            case YAML::NodeType::Sequence: return sequence(node, depth);
            case YAML::NodeType::Map: return mapping(node, depth);
        }
        return Json();
    }

  private:
    tl::unexpected<Error> problem(const YAML::Node& node, const std::string& what) const {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}:{}: {}", file_, node.Mark().line + 1, what));
    }

    Result<Json> sequence(const YAML::Node& node, int depth) {
        Json list = Json::array();
        for (const YAML::Node& item : node) {
            ROLL_TRY(Json value, read(item, depth + 1));
            list.push_back(std::move(value));
        }
        return list;
    }

    Result<Json> mapping(const YAML::Node& node, int depth) {
        Json object = Json::object();
        for (const auto& field : node) {
            if (!field.first.IsScalar()) return problem(field.first, "a key must be a scalar");
            const std::string& key = field.first.Scalar();
            if (key == "<<" && field.first.Tag() == "?")
                return problem(field.first,
                               "the merge key << is not supported; write the merged keys out");
            if (object.contains(key)) {
                return problem(field.first, fmt::format("duplicate key {}", key));
            }
            ROLL_TRY(Json value, read(field.second, depth + 1));
            object[key] = std::move(value);
        }
        return object;
    }

    const std::string& file_;
    int nodes_ = 0;
};

// Adds the lines of all keys below `node`. Follows aliases, but only down to the greatest depth of
// a job file.
void note_lines(const YAML::Node& node, const std::string& path, int depth,
                std::map<std::string, int>& lines) {
    if (depth > kDepthMax) return;
    if (node.IsSequence()) {
        for (std::size_t i = 0; i < node.size() && std::ssize(lines) < kNodesMax; ++i) {
            const std::string entry = fmt::format("{}[{}]", path, i);
            lines[entry] = node[i].Mark().line + 1;
            note_lines(node[i], entry, depth + 1, lines);
        }
    }
    if (!node.IsMap()) return;
    for (const auto& field : node) {
        if (!field.first.IsScalar() || std::ssize(lines) >= kNodesMax) continue;
        const std::string key = (path.empty() ? "" : path + ".") + field.first.Scalar();
        lines[key] = field.first.Mark().line + 1;
        note_lines(field.second, key, depth + 1, lines);
    }
}

}  // namespace

std::vector<std::map<std::string, int>> key_lines(std::string_view text) {
    std::vector<std::map<std::string, int>> documents;
    try {
        for (const YAML::Node& node : YAML::LoadAll(std::string(text)))
            note_lines(node, "", 0, documents.emplace_back());
    } catch (const YAML::Exception&) {
        return {};
    }
    return documents;
}

Result<std::vector<Json>> read(std::string_view text, const std::string& file) {
    std::vector<Json> documents;
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}:{}: has the character NUL, so it is not a text file", file,
                                1 + std::ranges::count(text.substr(0, nul), '\n')));
    try {
        Reader reader(file);
        for (const YAML::Node& node : YAML::LoadAll(std::string(text))) {
            ROLL_TRY(Json value, reader.read(node, 0));
            documents.push_back(std::move(value));
        }
    } catch (const YAML::DeepRecursion& e) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}:{}: nested too deeply", file, e.mark.line + 1));
    } catch (const YAML::Exception& e) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{}:{}: not YAML: {}", file, e.mark.line + 1, e.msg));
    }
    if (documents.empty()) return fail(ErrorCode::InvalidArgument, file + " is empty");
    return documents;
}

Result<Json> read_value(const std::string& text) {
    if (text.empty()) return Json("");
    ROLL_TRY(std::vector<Json> values, read(text, "--set"));
    return std::move(values.front());
}

}  // namespace roll::yaml
