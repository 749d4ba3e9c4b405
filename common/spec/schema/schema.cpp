#include "common/spec/schema/schema.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/counted.hpp"
#include "common/spec/schema/instead.hpp"
#include "common/spec/schema/nearest.hpp"
#include "common/spec/schema/placeholders.hpp"
#include "common/spec/schema/string_format.hpp"

namespace roll::spec {
namespace {

namespace fs = std::filesystem;

std::string show(const Json& value) {
    constexpr std::size_t kLongest = 60;
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
}

// Returns a value as text. Strings are not quoted.
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
    for (const OrderedJson& value : values) words.push_back(word(value));
    return words;
}

// Returns the value of `key`, or nullptr if `schema` is not an object or lacks the key.
const OrderedJson* key_in(const OrderedJson& schema, const std::string& key) {
    const auto found = schema.find(key);
    return found == schema.end() ? nullptr : &*found;
}

bool has_list(const OrderedJson& schema, const char* key) {
    const OrderedJson* list = key_in(schema, key);
    return list != nullptr && list->is_array();
}

// Returns the values of an enum that are implemented.
std::vector<std::string> built_words(const OrderedJson& schema) {
    return words_of(schema[has_list(schema, "x-built") ? "x-built" : "enum"]);
}

// Returns the words as text, such as "a, b, c and 12 more".
std::string list_of(std::vector<std::string> words) {
    constexpr std::size_t kMost = 40;
    const std::size_t more = words.size() - std::min(words.size(), kMost);
    words.resize(words.size() - more);
    return fmt::format("{}{}", fmt::join(words, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
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
    const auto type = key_in(schema, "type");
    if (!type) return {};
    return type->is_array() ? words_of(*type) : std::vector{type->get<std::string>()};
}

bool type_fits(const OrderedJson& schema, const Json& value) {
    const auto fits = [&](const OrderedJson& type) {
        return has_type(type.get_ref<const std::string&>(), value);
    };
    const auto type = key_in(schema, "type");
    if (!type) return true;
    return type->is_array() ? std::any_of(type->begin(), type->end(), fits) : fits(*type);
}

// Returns whether a value of a schema equals a value of a job file.
bool is_equal(const OrderedJson& a, const Json& b) {
    const auto* text = a.get_ptr<const std::string*>();
    const auto* other = b.get_ptr<const std::string*>();
    return text != nullptr && other != nullptr ? *text == *other : Json(a) == b;
}

// Returns the branch of the schema's oneOf that has the value's type. If the schema has no oneOf,
// returns the schema itself.
const OrderedJson* branch(const OrderedJson& schema, const Json& value) {
    const auto branches = key_in(schema, "oneOf");
    if (!branches) return &schema;
    for (const OrderedJson& one : *branches)
        if (type_fits(one, value)) return &one;
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
    const auto limit = [&](const char* key) { return word(schema[key]); };
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

class Checker {
  public:
    explicit Checker(const OrderedJson& root) : root_(root) {}

    void check(const OrderedJson& schema, const Json& value, const std::string& path) {
        const auto chosen = branch(schema, value);
        if (!chosen || !type_fits(*chosen, value)) {
            note(path, fmt::format("{}is {}; allowed: {}", path.empty() ? "it " : "", show(value),
                                   allowed(schema)));
            return;
        }
        if (value.is_object()) check_object(*chosen, value, path);
        if (value.is_array()) check_array(*chosen, value, path);
        const bool fits = (!value.is_string() || check_string(*chosen, value, path)) &&
                          (!value.is_number() || is_within_limits(*chosen, value)) &&
                          is_one_of(*chosen, value);
        if (fits)
            check_built(*chosen, value, path);
        else
            note(path, fmt::format("is {}; allowed: {}{}", show(value), allowed(schema),
                                   suggestion(*chosen, value)));
        check_conditions(*chosen, value, path);
    }

    std::vector<Problem> problems;

  private:
    void note(const std::string& path, const std::string& message) {
        problems.push_back({path, message});
    }

    void check_object(const OrderedJson& schema, const Json& value, const std::string& path) {
        check_required(schema, schema, value, path);
        const auto properties = key_in(schema, "properties");
        const auto others = key_in(schema, "additionalProperties");
        std::vector<std::string> unknown;
        for (const auto& [key, field] : value.items()) {
            if (const auto known = properties ? key_in(*properties, key) : nullptr) {
                if (known->is_object()) check(*known, field, join(path, key));
            } else if (others && others->is_object()) {
                check(*others, field, join(path, key));
            } else if (others) {
                unknown.push_back(key);
            }
        }
        note_unknown(schema, path, unknown);
    }

    // Reports the missing keys that `rule` requires. `schema` is used to describe their allowed
    // values.
    void check_required(const OrderedJson& rule, const OrderedJson& schema, const Json& value,
                        const std::string& path) {
        const auto required = key_in(rule, "required");
        if (!required) return;
        for (const OrderedJson& one : *required) {
            const auto& name = one.get_ref<const std::string&>();
            if (value.contains(name)) continue;
            const bool known = schema.contains("properties") && schema["properties"].contains(name);
            const std::string words = known ? allowed(schema["properties"][name]) : "";
            note(join(path, name), words.empty() ? "is missing" : "is missing; allowed: " + words);
        }
    }

    // Returns the path of the known key that the user probably meant by `key`; nullopt if there
    // is none.
    std::optional<std::string> meant(const std::vector<std::string>& siblings,
                                     const std::string& path, const std::string& key) const {
        // A typo is likelier than a wrong section, so search the keys of this section first.
        if (const auto close = nearest(key, siblings, 1)) return join(path, *close);
        if (auto elsewhere = path_of_key(root_, key)) return elsewhere;
        if (const auto near = nearest(key, siblings)) return join(path, *near);
        return std::nullopt;
    }

    // Reports up to kFew unknown keys one by one. If there are more than kFew, the file was
    // probably written for another program. All unknown keys are then reported in two lines.
    void note_unknown(const OrderedJson& schema, const std::string& path,
                      const std::vector<std::string>& unknown) {
        constexpr std::size_t kFew = 4;
        if (unknown.empty()) return;
        std::vector<std::string> siblings;
        if (const auto properties = key_in(schema, "properties"))
            for (const auto& one : properties->items()) siblings.push_back(one.key());
        std::vector<std::string> renamed;
        std::vector<std::string> strange;
        bool siblings_told = false;
        for (const std::string& key : unknown) {
            const auto known = meant(siblings, path, key);
            if (unknown.size() > kFew) {
                (known ? renamed : strange).push_back(known ? key + " -> " + *known : key);
            } else if (known) {
                note(join(path, key), fmt::format("is an unknown key; did you mean {}?", *known));
            } else {  // only the first message lists the allowed keys
                const std::string list =
                    std::exchange(siblings_told, true) ? "" : "; allowed: " + list_of(siblings);
                note(join(path, key), "is an unknown key" + list);
            }
        }
        const std::string it = path.empty() ? "it has " : "has ";
        if (!renamed.empty())
            note(path, it + "keys that Roll names differently: " + list_of(std::move(renamed)));
        if (!strange.empty()) note(path, it + "unknown keys: " + list_of(std::move(strange)));
    }

    void check_array(const OrderedJson& schema, const Json& value, const std::string& path) {
        if (schema.contains("minItems") && double(value.size()) < schema["minItems"].get<double>())
            note(path, fmt::format("has {}; allowed: at least {}", counted(value.size(), "entry"),
                                   schema["minItems"].get<double>()));
        if (!schema.contains("items")) return;
        for (std::size_t i = 0; i < value.size(); ++i)
            check(schema["items"], value[i], fmt::format("{}[{}]", path, i));
    }

    // Returns false if the text does not match the pattern or format and no problem is noted here.
    bool check_string(const OrderedJson& schema, const Json& value, const std::string& path) {
        const auto& text = value.get_ref<const std::string&>();
        const auto shortest = key_in(schema, "minLength");
        const auto pattern = key_in(schema, "pattern");
        const auto format = key_in(schema, "format");
        const bool too_short = shortest && double(text.size()) < shortest->get<double>();
        const bool other_pattern =
            pattern && !has_pattern(pattern->get_ref<const std::string&>(), text);
        const bool other_format =
            format && !has_format(format->get_ref<const std::string&>(), text);
        const auto instead = instead_of(schema, text);
        if (too_short)
            note(path, "is empty");
        else if (other_pattern && instead)
            note(path, fmt::format("is {}, {}", show(value), *instead));
        else
            return !other_pattern && !other_format;
        return true;
    }

    // Returns whether the number is within the schema's limits.
    static bool is_within_limits(const OrderedJson& schema, const Json& value) {
        const double number = value.get<double>();
        const auto holds = [&](const char* key, auto compare) {
            const auto limit = key_in(schema, key);
            return !limit || compare(number, limit->get<double>());
        };
        return std::isfinite(number) && holds("minimum", std::greater_equal<>()) &&
               holds("maximum", std::less_equal<>()) &&
               holds("exclusiveMinimum", std::greater<>()) &&
               holds("exclusiveMaximum", std::less<>());
    }

    static bool holds(const OrderedJson& values, const Json& value) {
        return std::any_of(values.begin(), values.end(),
                           [&](const OrderedJson& one) { return is_equal(one, value); });
    }

    // Returns whether the schema's `enum` and `const` allow the value.
    static bool is_one_of(const OrderedJson& schema, const Json& value) {
        const auto words = key_in(schema, "enum");
        const auto constant = key_in(schema, "const");
        return (!words || holds(*words, value)) && (!constant || is_equal(*constant, value));
    }

    // Checks that this release supports the value (key `x-built`).
    void check_built(const OrderedJson& schema, const Json& value, const std::string& path) {
        if (!schema.contains("x-built")) return;
        const OrderedJson& built = schema["x-built"];
        if (built.is_boolean())
            note(path, "is not supported yet");
        else if (!holds(built, value))
            note(path, fmt::format("{} is not supported yet; supported: {}", word(value),
                                   fmt::join(words_of(built), ", ")));
    }

    static std::string suggestion(const OrderedJson& schema, const Json& value) {
        if (!value.is_string() || !schema.contains("enum")) return "";
        const auto near = nearest(value.get<std::string>(), built_words(schema));
        return near ? fmt::format("; did you mean {}?", *near) : "";
    }

    void check_conditions(const OrderedJson& schema, const Json& value, const std::string& path) {
        if (schema.contains("allOf"))
            for (const OrderedJson& part : schema["allOf"])
                check_condition(part, schema, value, path);
        check_condition(schema, schema, value, path);
    }

    void check_condition(const OrderedJson& condition, const OrderedJson& schema, const Json& value,
                         const std::string& path) {
        const auto rest = consequence(condition, value);
        if (!rest) return;
        check_required(*rest, schema, value, path);
        if (!rest->contains("properties")) return;
        for (const auto& [key, rule] : (*rest)["properties"].items()) {
            if (rule == false && value.contains(key)) {
                note(join(path, key), fmt::format("is not allowed in a job of kind {}",
                                                  word(value.value("kind", Json("?")))));
            }
        }
    }

  public:
    // Returns the schema's `then` or `else`, depending on whether the value meets `if`. Returns
    // nullptr if the schema has no `if`, or lacks the part that applies.
    static const OrderedJson* consequence(const OrderedJson& schema, const Json& value) {
        if (!schema.contains("if")) return nullptr;
        const OrderedJson& asked = schema["if"];
        Checker condition(asked);
        condition.check_object(asked, value, "");
        // True if `if` names a key that the value lacks. Roll uses `else` in this case. JSON Schema
        // would use `then`.
        bool absent = false;
        if (asked.contains("properties")) {
            for (const auto& rule : asked["properties"].items())
                absent |= !value.contains(rule.key());
        }
        const char* key = condition.problems.empty() && !absent ? "then" : "else";
        return key_in(schema, key);
    }

  private:
    const OrderedJson& root_;
};

// Calls visit(key, schema, path) for every key of the schema. Visits a section before the keys in
// the section. Stops and returns true once visit() returns true.
template <class Visit>
bool any_key(const OrderedJson& schema, const std::string& path, const Visit& visit) {
    if (!schema.is_object()) return false;
    if (const auto properties = key_in(schema, "properties")) {
        for (const auto& [key, field] : properties->items()) {
            const std::string full = join(path, key);
            if (visit(key, field, full) || any_key(field, full, visit)) return true;
        }
    }
    const auto branches = key_in(schema, "oneOf");
    if (!branches) return false;
    for (const OrderedJson& one : *branches)
        if (any_key(one, path, visit)) return true;
    return false;
}

void fill_from(const OrderedJson& properties, Json& value) {
    for (const auto& [key, field] : properties.items()) {
        const OrderedJson* usual = key_in(field, "default");
        if (usual != nullptr && !value.contains(key)) value[key] = *usual;
    }
}

// Returns whether the string is a path of this machine. The following strings are not: an empty
// text, the key's special words, references to earlier jobs of a chain ("{NAME.output}"), and paths
// below "{files}".
bool is_path(const OrderedJson& rule, const Json& text) {
    if (!rule.contains("x-path") || word(text).empty() || is_reference(word(text))) return false;
    if (word(text).starts_with(kFilesDirectory)) return false;
    const auto words = key_in(rule, "x-words");
    return !words || std::none_of(words->begin(), words->end(),
                                  [&](const OrderedJson& one) { return is_equal(one, text); });
}

// Calls visit(schema, value, path) for every string of `value` that the schema describes.
template <class Value, class Visit>
void for_each_string(const OrderedJson& schema, Value& value, const std::string& path,
                     const Visit& visit) {
    const auto chosen = branch(schema, value);
    if (!chosen) return;
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
        for (std::size_t i = 0; i < value.size(); ++i)
            for_each_string((*chosen)["items"], value[i], fmt::format("{}[{}]", path, i), visit);
    }
}

}  // namespace

std::optional<std::string> path_of_key(const OrderedJson& schema, std::string_view name) {
    std::optional<std::string> same;
    std::optional<std::string> also;
    any_key(schema, "", [&](const auto& key, const OrderedJson& field, const auto& path) {
        if (key == name) same = path;
        const OrderedJson* others = key_in(field, "x-also");
        if (!also && others != nullptr) {
            for (const std::string& other : words_of(*others))
                if (other == name) also = path;
        }
        return same.has_value();
    });
    return same ? same : also;
}

std::vector<Problem> check(const OrderedJson& schema, const Json& value) {
    Checker checker(schema);
    checker.check(schema, value, "");
    return std::move(checker.problems);
}

void fill_defaults(const OrderedJson& schema, Json& value) {
    const auto chosen = branch(schema, value);
    if (!chosen || !value.is_object()) return;
    if (chosen->contains("allOf")) {
        for (const OrderedJson& part : (*chosen)["allOf"]) {
            const auto rest = Checker::consequence(part, value);
            if (rest && rest->contains("properties")) fill_from((*rest)["properties"], value);
        }
    }
    if (!chosen->contains("properties")) return;
    fill_from((*chosen)["properties"], value);
    for (const auto& [key, field] : (*chosen)["properties"].items())
        if (value.contains(key)) fill_defaults(field, value[key]);
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
        const auto name = text.template get<std::string>();
        std::error_code error;
        if (fs::exists(name, error)) return;
        const std::string reason = error ? ": " + error.message() : ", which does not exist";
        problems.push_back({path, "is " + name + reason});
    });
    return problems;
}

std::string allowed(const OrderedJson& schema) {
    if (schema.contains("oneOf")) {
        std::vector<std::string> branches;
        for (const OrderedJson& one : schema["oneOf"]) branches.push_back(allowed(one));
        return fmt::format("{}", fmt::join(branches, ", or "));
    }
    if (schema.contains("x-allowed")) return schema["x-allowed"].get<std::string>();
    if (schema.contains("enum") || has_list(schema, "x-built")) return one_of(built_words(schema));
    std::vector<std::string> types;
    for (const auto& type : types_of(schema)) types.push_back(words_of_type(type, schema));
    return one_of(types) + words_of_limits(schema);
}

}  // namespace roll::spec
