#include "worker/families/check.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "common/spec/schema/nearest.hpp"
#include "common/split.hpp"
#include "worker/families/embedded.hpp"
#include "worker/families/expression.hpp"
#include "worker/families/model.hpp"

namespace roll::families {
namespace {

constexpr std::size_t kEditsMax = 2;

tl::unexpected<Error> wrong_file(const std::string& what, std::string hint = "") {
    return fail(ErrorCode::InvalidArgument, what, std::move(hint));
}

// Returns the names in an expression, but not its numbers.
std::vector<std::string> names_in(const std::string& expression) {
    std::vector<std::string> names;
    std::string word;
    for (const char c : expression + " ") {
        const bool in_word =
            std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
        if (in_word) {
            word += c;
            continue;
        }
        if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0)
            names.push_back(word);
        word.clear();
    }
    return names;
}

std::vector<std::string> expressions_of(const WeightRule& rule) {
    std::vector<std::string> all;
    for (const auto& shape : rule.shapes) all.insert(all.end(), shape.begin(), shape.end());
    if (!rule.groups.empty()) all.push_back(rule.groups);
    for (const StrandRule& one : rule.strands)
        all.insert(all.end(), {one.begin, one.rows, one.times, one.step, one.block});
    for (const auto& [name, count] : rule.repeat) all.push_back(count);
    return all;
}

std::set<std::string> fields_of(const Family& family) {
    std::set<std::string> fields;
    for (const auto& [name, paths] : family.config) fields.insert(name);
    for (const auto& [name, value] : family.constants.items()) fields.insert(name);
    return fields;
}

// The names that the built-in families use. `fields` has native config fields. `words` has the
// parts of native tensor names between the dots.
struct Names {
    std::set<std::string> fields;
    std::set<std::string> words;
};

void add_names(const Family& family, Names& names) {
    names.fields.merge(fields_of(family));
    for (const WeightRule& rule : family.weights)
        for (std::string& word : split_at(rule.native, '.')) names.words.insert(std::move(word));
}

Result<Names> built_in_names() {
    Names names;
    for (const EmbeddedFile& file : embedded_families()) {
        ROLL_TRY(const Family family, parse_family(file.content, file.name));
        add_names(family, names);
    }
    return names;
}

// Returns the known name that is most similar to `name`. Returns nullopt if `name` itself is known
// or no known name is similar.
std::optional<std::string> meant_by(const std::string& name, const std::set<std::string>& known) {
    if (known.contains(name)) return std::nullopt;
    const std::vector<std::string> list(known.begin(), known.end());
    return spec::nearest(name, list, kEditsMax);
}

Result<void> check_spelling(const Family& family) {
    ROLL_TRY(const Names known, built_in_names());
    Names own;
    add_names(family, own);
    for (const std::string& name : own.fields)
        if (const auto meant = meant_by(name, known.fields))
            return wrong_file("no built-in family has the native field " + name,
                              "did you mean " + *meant + "?");
    for (const std::string& word : own.words)
        if (const auto meant = meant_by(word, known.words))
            return wrong_file("no native tensor of a built-in family has " + word + " in its name",
                              "did you mean " + *meant + "?");
    return {};
}

Result<void> check_field(const std::set<std::string>& fields, const std::string& name,
                         const std::string& where) {
    if (name.empty() || name.starts_with("hf.") || fields.contains(name)) return {};
    const std::vector<std::string> list(fields.begin(), fields.end());
    const auto meant = spec::nearest(name, list);
    return wrong_file(where + " uses " + name + ", which neither config nor constants sets",
                      meant ? "did you mean " + *meant + "?" : "");
}

std::string field_of(const std::string& condition) {
    return condition.starts_with('!') ? condition.substr(1) : condition;
}

Result<void> check_field_names(const Family& family) {
    const std::set<std::string> fields = fields_of(family);
    for (const WeightRule& rule : family.weights) {
        ROLL_TRY_VOID(check_field(fields, field_of(rule.condition), rule.native));
        for (const std::string& expression : expressions_of(rule))
            for (const std::string& name : names_in(expression))
                ROLL_TRY_VOID(check_field(fields, name, rule.native));
    }
    for (const PackedRule& rule : family.packed)
        ROLL_TRY_VOID(check_field(fields, field_of(rule.condition), rule.hf));
    for (const CopyRule& rule : family.copies)
        ROLL_TRY_VOID(check_field(fields, field_of(rule.condition), rule.hf));
    return {};
}

// Assigns sample values to the fields that expressions use. If the family computes a field's value,
// assigns the computed value.
class SampleSizes {
  public:
    SampleSizes(const Family& family, std::size_t round) : family_(family), next_(round) {}

    Result<void> set(const std::string& expression, int depth = 0) {
        constexpr int kDepthMax = 8;
        if (depth > kDepthMax) return wrong_file("the else of " + expression + " refers to itself");
        for (const std::string& name : names_in(expression)) {
            if (value_at(scope_, name) != nullptr) continue;
            const Json otherwise = family_.defaults.value(name, Json());
            const Json constant = family_.constants.value(name, Json());
            Json value = constant;
            if (otherwise.is_string()) {
                ROLL_TRY_VOID(set(otherwise.get<std::string>(), depth + 1));
                ROLL_TRY(value, evaluate(otherwise.get<std::string>(), scope_));
            } else if (!value.is_number()) {
                value = kSizes[next_++ * 5 % kSizes.size()];
            }
            scope_[Json::json_pointer("/" + pointer(name))] = std::move(value);
        }
        return {};
    }
    const Json& scope() const { return scope_; }

  private:
    static constexpr std::array<std::int64_t, 8> kSizes{6, 8, 10, 4, 12, 2, 16, 24};

    static std::string pointer(std::string name) {
        std::replace(name.begin(), name.end(), '.', '/');
        return name;
    }
    const Family& family_;
    std::size_t next_;
    Json scope_{
        {"num_attention_heads", 8}, {"num_query_groups", 4},       {"kv_channels", 6},
        {"hidden_size", 64},        {"linear_num_value_heads", 8}, {"linear_num_key_heads", 4}};
};

Result<void> try_rows(const Family& family, const WeightRule& rule, std::size_t round) {
    SampleSizes sizes(family, round);
    for (const std::string& expression : expressions_of(rule)) ROLL_TRY_VOID(sizes.set(expression));
    ROLL_TRY_VOID(tensor_of(family, rule, sizes.scope()));
    return {};
}

// Checks that the strands (row ranges) of a rule use each row once. If a division of the sample
// sizes leaves a remainder, the check proves nothing and is repeated with other sizes.
Result<void> check_rows(const Family& family, const WeightRule& rule) {
    if (rule.operation != Operation::Strands) return {};
    constexpr std::size_t kRounds = 8;
    Result<void> tried;
    for (std::size_t round = 0; round < kRounds; ++round) {
        tried = try_rows(family, rule, round);
        if (tried || tried.error().message.find("is not divisible by") == std::string::npos) break;
    }
    return tried;
}

}  // namespace

Result<void> check_family(const Family& family) {
    ROLL_TRY_VOID(check_field_names(family));
    ROLL_TRY_VOID(check_spelling(family));
    for (const WeightRule& rule : family.weights) ROLL_TRY_VOID(check_rows(family, rule));
    return {};
}

}  // namespace roll::families
