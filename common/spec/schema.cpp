#include "common/spec/schema.hpp"

#include <filesystem>
#include <map>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/spec/chain.hpp"
#include "common/spec/nearest.hpp"
#include "common/spec/string_format.hpp"

namespace roll::spec {
namespace {

namespace fs = std::filesystem;

std::string show(const Json& value) {
    constexpr std::size_t kLongest = 60;
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
}

// Strings without their quotes: for words that the schema itself names.
std::string word(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string one_of(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += words[i];
    }
    return text;
}

std::vector<std::string> words_of(const OrderedJson& values) {
    std::vector<std::string> words;
    for (const auto& value : values) words.push_back(word(Json(value)));
    return words;
}

std::string join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
}

bool has_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    if (!value.is_number_integer()) return false;
    return !value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX;
}

std::vector<std::string> types_of(const OrderedJson& schema) {
    if (!schema.is_object() || !schema.contains("type")) return {};
    const auto& type = schema["type"];
    return type.is_array() ? type.get<std::vector<std::string>>()
                           : std::vector{type.get<std::string>()};
}

bool type_fits(const OrderedJson& schema, const Json& value) {
    const auto types = types_of(schema);
    return types.empty() || std::any_of(types.begin(), types.end(),
                                        [&](const auto& type) { return has_type(type, value); });
}

// The schema itself, or the branch of its oneOf that a value of this type is meant for; null: none.
const OrderedJson* branch(const OrderedJson& schema, const Json& value) {
    if (!schema.contains("oneOf")) return &schema;
    for (const auto& one : schema["oneOf"]) {
        if (type_fits(one, value)) return &one;
    }
    return nullptr;
}

std::string words_of_type(const std::string& type, const OrderedJson& schema) {
    if (type == "integer") return "an integer";
    if (type == "number") return "a number";
    if (type == "boolean") return "true or false";
    if (type == "array") return "a list";
    if (type == "object") return "a mapping";
    if (type == "null") return "null";
    if (schema.contains("format"))
        return std::string(format_words(schema["format"].get<std::string>()));
    return "a string";
}

std::string words_of_limits(const OrderedJson& schema) {
    const auto limit = [&](const char* key) { return word(Json(schema[key])); };
    if (schema.contains("minimum") && schema.contains("maximum")) {
        return fmt::format(", {} to {}", limit("minimum"), limit("maximum"));
    }
    std::string text;
    if (schema.contains("minimum")) text += ", at least " + limit("minimum");
    if (schema.contains("exclusiveMinimum")) text += ", above " + limit("exclusiveMinimum");
    if (schema.contains("maximum")) text += ", at most " + limit("maximum");
    if (schema.contains("exclusiveMaximum")) text += ", below " + limit("exclusiveMaximum");
    return text;
}

// Compiled once: that takes longer than all else that a job's check does.
const std::regex& compiled(const std::string& pattern) {
    static thread_local std::map<std::string, std::regex> known;
    const auto found = known.find(pattern);
    return found != known.end() ? found->second : known.emplace(pattern, pattern).first->second;
}

class Checker {
  public:
    explicit Checker(const OrderedJson& root) : root_(root) {}

    void check(const OrderedJson& schema, const Json& value, const std::string& path) {
        const OrderedJson* chosen = branch(schema, value);
        if (chosen == nullptr || !type_fits(*chosen, value)) {
            note(path, fmt::format("is {}; allowed: {}", show(value), allowed(schema)));
            return;
        }
        if (value.is_object()) check_object(*chosen, value, path);
        if (value.is_array()) check_array(*chosen, value, path);
        if (value.is_string()) check_string(*chosen, value, path);
        if (value.is_number()) check_number(*chosen, value, path);
        check_values(*chosen, value, path);
        check_conditions(*chosen, value, path);
    }

    std::vector<Problem> problems;

  private:
    void note(const std::string& path, const std::string& message) {
        problems.push_back({path, message});
    }

    void check_object(const OrderedJson& schema, const Json& value, const std::string& path) {
        check_required(schema, schema, value, path);
        static const OrderedJson kNone = OrderedJson::object();
        const OrderedJson& properties =
            schema.contains("properties") ? schema["properties"] : kNone;
        const OrderedJson& others =
            schema.contains("additionalProperties") ? schema["additionalProperties"] : kNone;
        for (const auto& [key, field] : value.items()) {
            if (others.is_object() && !properties.contains(key)) {
                check(others, field, join(path, key));
            } else if (properties.contains(key)) {
                if (properties[key].is_object()) check(properties[key], field, join(path, key));
            } else {
                note(join(path, key), unknown_key(properties, path, key));
            }
        }
    }

    // `rule` says what is required, `schema` what it may be.
    void check_required(const OrderedJson& rule, const OrderedJson& schema, const Json& value,
                        const std::string& path) {
        if (!rule.contains("required")) return;
        for (const auto& key : rule["required"]) {
            if (value.contains(key)) continue;
            const auto name = key.get<std::string>();
            const bool known = schema.contains("properties") && schema["properties"].contains(name);
            const std::string words = known ? allowed(schema["properties"][name]) : "";
            note(join(path, name), words.empty() ? "is missing" : "is missing; allowed: " + words);
        }
    }

    std::string unknown_key(const OrderedJson& properties, const std::string& path,
                            const std::string& key) const {
        for (const std::string& elsewhere : key_paths(root_)) {
            if (elsewhere.ends_with("." + key) || elsewhere == key) {
                return fmt::format("is no known key here; did you mean {}?", elsewhere);
            }
        }
        std::vector<std::string> siblings;
        for (const auto& [name, ignored] : properties.items()) siblings.push_back(name);
        if (const auto near = nearest(key, siblings)) {
            return fmt::format("is no known key; did you mean {}?", join(path, *near));
        }
        return fmt::format("is no known key; allowed: {}", fmt::join(siblings, ", "));
    }

    void check_array(const OrderedJson& schema, const Json& value, const std::string& path) {
        if (schema.contains("minItems") && value.size() < schema["minItems"].get<std::size_t>()) {
            note(path, fmt::format("has {} entries; allowed: at least {}", value.size(),
                                   schema["minItems"].get<std::size_t>()));
        }
        if (!schema.contains("items")) return;
        for (std::size_t i = 0; i < value.size(); ++i) {
            check(schema["items"], value[i], fmt::format("{}[{}]", path, i));
        }
    }

    void check_string(const OrderedJson& schema, const Json& value, const std::string& path) {
        const auto& text = value.get_ref<const std::string&>();
        const bool too_short =
            schema.contains("minLength") && text.size() < schema["minLength"].get<std::size_t>();
        const bool other_pattern =
            schema.contains("pattern") &&
            !std::regex_search(text, compiled(schema["pattern"].get<std::string>()));
        const bool other_format = !has_format(schema.value("format", ""), text);
        if (too_short) {
            note(path, "is empty");
        } else if (other_pattern || other_format) {
            note(path, fmt::format("is {}; allowed: {}", show(value), allowed(schema)));
        }
    }

    void check_number(const OrderedJson& schema, const Json& value, const std::string& path) {
        const double number = value.get<double>();
        const auto beyond = [&](const char* key, auto compare) {
            return schema.contains(key) && !compare(number, schema[key].get<double>());
        };
        if (!std::isfinite(number) || beyond("minimum", std::greater_equal<>()) ||
            beyond("maximum", std::less_equal<>()) ||
            beyond("exclusiveMinimum", std::greater<>()) ||
            beyond("exclusiveMaximum", std::less<>())) {
            note(path, fmt::format("is {}; allowed: {}", show(value), allowed(schema)));
        }
    }

    // enum, const, and what of them is built.
    void check_values(const OrderedJson& schema, const Json& value, const std::string& path) {
        const auto holds = [&](const OrderedJson& values) {
            return std::any_of(values.begin(), values.end(),
                               [&](const auto& one) { return Json(one) == value; });
        };
        if ((schema.contains("enum") && !holds(schema["enum"])) ||
            (schema.contains("const") && Json(schema["const"]) != value)) {
            note(path, fmt::format("is {}; allowed: {}{}", show(value), allowed(schema),
                                   suggestion(schema, value)));
            return;
        }
        if (!schema.contains("x-built")) return;
        const auto& built = schema["x-built"];
        if (built.is_boolean()) {
            note(path, "is not built yet");
        } else if (!holds(built)) {
            note(path, fmt::format("{} is not built yet; built: {}", word(value),
                                   fmt::join(words_of(built), ", ")));
        }
    }

    static std::string suggestion(const OrderedJson& schema, const Json& value) {
        if (!value.is_string() || !schema.contains("enum")) return "";
        const auto near = nearest(value.get<std::string>(), words_of(schema["enum"]));
        return near ? fmt::format("; did you mean {}?", *near) : "";
    }

    void check_conditions(const OrderedJson& schema, const Json& value, const std::string& path) {
        if (schema.contains("allOf")) {
            for (const auto& part : schema["allOf"]) check_condition(part, schema, value, path);
        }
        check_condition(schema, schema, value, path);
    }

    void check_condition(const OrderedJson& condition, const OrderedJson& schema, const Json& value,
                         const std::string& path) {
        const OrderedJson* rest = consequence(condition, value);
        if (rest == nullptr) return;
        check_required(*rest, schema, value, path);
        if (!rest->contains("properties")) return;
        for (const auto& [key, rule] : (*rest)["properties"].items()) {
            if (rule == false && value.contains(key)) {
                note(join(path, key), fmt::format("does not belong to a job of kind {}",
                                                  word(value.value("kind", Json("?")))));
            }
        }
    }

  public:
    // The `then` or `else` that holds for this value; null: there is none.
    static const OrderedJson* consequence(const OrderedJson& schema, const Json& value) {
        if (!schema.contains("if")) return nullptr;
        Checker condition{OrderedJson()};
        const OrderedJson& asked = schema["if"];
        condition.check_object(asked, value, "");
        bool absent = false;  // a value asked for that is not there does not meet an `if` of ours
        if (asked.contains("properties")) {
            for (const auto& [key, rule] : asked["properties"].items()) {
                absent |= !value.contains(key);
            }
        }
        const char* key = condition.problems.empty() && !absent ? "then" : "else";
        return schema.contains(key) ? &schema[key] : nullptr;
    }

  private:
    const OrderedJson& root_;
};

void collect_keys(const OrderedJson& schema, const std::string& path,
                  std::vector<std::string>& keys) {
    if (!schema.is_object()) return;
    if (schema.contains("properties")) {
        for (const auto& [key, field] : schema["properties"].items()) {
            const std::string full = join(path, key);
            keys.push_back(full);
            collect_keys(field, full, keys);
        }
    }
    if (schema.contains("oneOf")) {
        for (const auto& one : schema["oneOf"]) collect_keys(one, path, keys);
    }
}

void fill_from(const OrderedJson& properties, Json& value) {
    for (const auto& [key, field] : properties.items()) {
        if (field.is_object() && field.contains("default") && !value.contains(key)) {
            value[key] = Json(field["default"]);
        }
    }
}

// Whether the schema takes this string for a path, and not for a word that stands beside paths.
bool is_path(const OrderedJson& rule, const Json& text) {
    if (!rule.contains("x-path") || is_reference(word(text))) return false;
    if (!rule.contains("x-words")) return true;
    const auto words = words_of(rule["x-words"]);
    return std::find(words.begin(), words.end(), word(text)) == words.end();
}

// Calls visit(schema, value, path) for every string that the schema knows.
template <class Value, class Visit>
void for_each_string(const OrderedJson& schema, Value& value, const std::string& path,
                     const Visit& visit) {
    const OrderedJson* chosen = branch(schema, value);
    if (chosen == nullptr) return;
    if (value.is_string()) visit(*chosen, value, path);
    if (value.is_object() && chosen->contains("properties")) {
        for (const auto& [key, field] : (*chosen)["properties"].items()) {
            if (!field.is_object() || !value.contains(key)) continue;
            for_each_string(field, value[key], join(path, key), visit);
        }
    }
    if (value.is_object() && chosen->contains("additionalProperties") &&
        (*chosen)["additionalProperties"].is_object()) {
        for (auto& [key, one] : value.items()) {
            if (chosen->contains("properties") && (*chosen)["properties"].contains(key)) continue;
            for_each_string((*chosen)["additionalProperties"], one, join(path, key), visit);
        }
    }
    if (value.is_array() && chosen->contains("items")) {
        for (std::size_t i = 0; i < value.size(); ++i) {
            for_each_string((*chosen)["items"], value[i], fmt::format("{}[{}]", path, i), visit);
        }
    }
}

}  // namespace

std::vector<std::string> key_paths(const OrderedJson& schema) {
    std::vector<std::string> keys;
    collect_keys(schema, "", keys);
    return keys;
}

std::vector<Problem> check(const OrderedJson& schema, const Json& value) {
    Checker checker(schema);
    checker.check(schema, value, "");
    return std::move(checker.problems);
}

void fill_defaults(const OrderedJson& schema, Json& value) {
    const OrderedJson* chosen = branch(schema, value);
    if (chosen == nullptr || !value.is_object()) return;
    if (chosen->contains("allOf")) {
        for (const auto& part : (*chosen)["allOf"]) {
            const OrderedJson* rest = Checker::consequence(part, value);
            if (rest != nullptr && rest->contains("properties")) {
                fill_from((*rest)["properties"], value);
            }
        }
    }
    if (!chosen->contains("properties")) return;
    fill_from((*chosen)["properties"], value);
    for (const auto& [key, field] : (*chosen)["properties"].items()) {
        if (value.contains(key)) fill_defaults(field, value[key]);
    }
}

void make_paths_absolute(const OrderedJson& schema, Json& value, const std::string& base) {
    for_each_string(schema, value, "", [&](const OrderedJson& rule, Json& text, const auto&) {
        if (!is_path(rule, text)) return;
        const fs::path path = fs::path(base) / text.get<std::string>();
        std::string normal = path.lexically_normal();
        if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
        text = normal;
    });
}

std::vector<Problem> missing_files(const OrderedJson& schema, const Json& value) {
    std::vector<Problem> problems;
    for_each_string(schema, value, "", [&](const auto& rule, const Json& text, const auto& path) {
        if (!rule.contains("x-exists") || !is_path(rule, text)) return;
        std::error_code error;
        const auto name = text.template get<std::string>();
        if (!fs::exists(name, error)) {
            problems.push_back({path, fmt::format("is {}, and there is no such file", name)});
        }
    });
    return problems;
}

std::string allowed(const OrderedJson& schema) {
    if (schema.contains("oneOf")) {
        std::vector<std::string> branches;
        for (const auto& one : schema["oneOf"]) branches.push_back(allowed(one));
        return one_of(branches);
    }
    if (schema.contains("x-allowed")) return schema["x-allowed"];
    if (schema.contains("enum")) return one_of(words_of(schema["enum"]));
    std::vector<std::string> types;
    for (const auto& type : types_of(schema)) types.push_back(words_of_type(type, schema));
    return one_of(types) + words_of_limits(schema);
}

}  // namespace roll::spec
