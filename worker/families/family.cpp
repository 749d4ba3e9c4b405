#include "worker/families/family.hpp"

#include <array>
#include <optional>
#include <set>

namespace roll::families {
namespace {

struct OperationRow {
    const char* name;
    Operation operation;
    std::size_t sources;
};
constexpr std::array<OperationRow, 4> kOperations{{{"copy", Operation::Copy, 1},
                                                   {"qkv", Operation::Qkv, 3},
                                                   {"gate_up", Operation::GateUp, 2},
                                                   {"strands", Operation::Strands, 0}}};
constexpr std::array<std::pair<const char*, Packing>, 3> kPackings{
    {{"stacked", Packing::Stacked},
     {"transposed", Packing::Transposed},
     {"interleaved", Packing::Interleaved}}};
constexpr std::array<std::pair<const char*, Split>, 3> kSplits{
    {{"none", Split::None}, {"column", Split::Column}, {"row", Split::Row}}};
using RopeKind = spec::RopeScaling::Kind;
constexpr std::array<std::pair<const char*, RopeKind>, 5> kRopeKinds{
    {{"plain", RopeKind::Plain},
     {"linear", RopeKind::Linear},
     {"wavelength", RopeKind::Wavelength},
     {"yarn", RopeKind::Yarn},
     {"long", RopeKind::Long}}};
constexpr std::array<std::pair<const char*, Stage>, 4> kStages{
    {{"layer", Stage::Layer}, {"first", Stage::First}, {"last", Stage::Last}, {"mtp", Stage::Mtp}}};

template <class Value, std::size_t n>
std::optional<Value> by_name(const std::array<std::pair<const char*, Value>, n>& rows,
                             std::string_view name) {
    for (const auto& [row_name, value] : rows)
        if (name == row_name) return value;
    return std::nullopt;
}

// Parses one family file. Records the first problem and its path in the JSON.
class FamilyParser {
  public:
    explicit FamilyParser(std::string where) : where_(std::move(where)) {}

    Result<Family> parse(const Json& json) {
        Family family;
        if (!json.is_object())
            return fail(ErrorCode::InvalidArgument, where_ + ": the file must be an object");
        only(json, "",
             {"family", "hf", "layers", "config", "constants", "requires", "rope_types", "weights",
              "packed", "carried", "mtp", "copies", "drop", "spellings"});
        family.name = text(json, "", "family");
        const Json hf = object(json, "", "hf");
        only(hf, "hf", {"model_type", "defaults"});
        family.model_types = names(hf.value("model_type", Json()), "hf.model_type");
        if (!family.model_types.empty()) family.model_type = family.model_types.front();
        family.hf_defaults = object(hf, "hf", "defaults");
        parse_config(object(json, "", "config"), family);
        family.constants = object(json, "", "constants");
        family.requires_values = object(json, "", "requires");
        const Json kinds = object(json, "", "layers");
        for (const auto& [name, kind] : kinds.items())
            family.layer_kinds.emplace(name, parse_kind(kind, "layers." + name));
        parse_rope_types(object(json, "", "rope_types"), family);
        if (json.contains("mtp")) {
            const Json mtp = object(json, "", "mtp");
            only(mtp, "mtp", {"from", "to"});
            family.mtp_from = text(mtp, "mtp", "from");
            family.mtp_to = text(mtp, "mtp", "to");
        }
        parse_packed(json.value("packed", Json::array()), family);
        parse_carried(json.value("carried", Json::array()), family);
        parse_copies(json.value("copies", Json::array()), family);
        parse_weights(json.value("weights", Json::array()), family);
        check_constants(family);
        const Json spellings = object(json, "", "spellings");
        for (const auto& [found, named] : spellings.items())
            family.spellings[found] = text(spellings, "spellings", found.c_str());
        if (json.contains("drop")) family.drop = names(json["drop"], "drop");
        if (!problem_.empty()) return fail(ErrorCode::InvalidArgument, where_ + ": " + problem_);
        return family;
    }

  private:
    void note(const std::string& path, const std::string& what) {
        if (problem_.empty()) problem_ = (path.empty() ? "the file" : path) + " " + what;
    }
    static std::string join(const std::string& path, const std::string& key) {
        return path.empty() ? key : path + "." + key;
    }
    void only(const Json& json, const std::string& path, const std::set<std::string>& allowed) {
        if (!json.is_object()) return note(path, "must be an object");
        for (const auto& [key, value] : json.items())
            if (!allowed.contains(key)) note(join(path, key), "is not a key of family files");
    }
    Json object(const Json& json, const std::string& path, const char* key) {
        if (!json.contains(key)) return Json::object();
        if (!json[key].is_object()) {
            note(join(path, key), "must be an object");
            return Json::object();
        }
        return json[key];
    }
    std::string text(const Json& json, const std::string& path, const char* key) {
        if (json.contains(key) && json[key].is_string() &&
            !json[key].get_ref<const std::string&>().empty())
            return json[key].get<std::string>();
        note(join(path, key), "must be a text that is not empty");
        return "";
    }
    std::vector<std::string> names(const Json& json, const std::string& path) {
        if (json.is_string()) return {json.get<std::string>()};
        std::vector<std::string> result;
        if (json.is_array()) {
            for (const Json& item : json)
                if (item.is_string()) result.push_back(item.get<std::string>());
        }
        if (!json.is_array() || result.size() != json.size() || result.empty())
            note(path, "must be a text or a list of texts; a list must not be empty");
        return result;
    }

    // Parses the HuggingFace paths of each native field, and the values for configs that lack these
    // paths.
    void parse_config(const Json& config, Family& family) {
        for (const auto& [native, source] : config.items()) {
            const std::string path = "config." + native;
            if (!source.is_object()) {
                family.config.emplace_back(native, names(source, path));
                continue;
            }
            only(source, path, {"from", "else", "null"});
            family.config.emplace_back(native, names(source.value("from", Json()), path + ".from"));
            if (source.contains("else")) family.defaults[native] = source["else"];
            if (source.contains("null")) family.nulls[native] = source["null"];
        }
    }

    LayerKind parse_kind(const Json& json, const std::string& path) {
        LayerKind kind;
        only(json, path, {"from", "else", "every", "not_in", "in", "value", "except_every"});
        if (!json.is_object()) return kind;
        kind.from = choice(json, path, "from");
        kind.every = choice(json, path, "every");
        kind.not_in = choice(json, path, "not_in");
        kind.in = choice(json, path, "in");
        kind.value = choice(json, path, "value");
        kind.except_every = number(json, path, "except_every", 1);
        kind.from_else = number(json, path, "else", 0);
        const int numbers = static_cast<int>(!kind.from.empty()) +
                            static_cast<int>(!kind.every.empty()) +
                            static_cast<int>(kind.except_every > 0);
        if (numbers + static_cast<int>(!kind.in.empty()) == 0 || numbers > 1 ||
            kind.in.empty() != kind.value.empty() || (!kind.not_in.empty() && kind.every.empty()) ||
            (kind.except_every > 0 && kind.in.empty()) ||
            (json.contains("else") && kind.from.empty()))
            note(path,
                 "must have `from`, `every` or `in`, and at most one of `from`, `every` and "
                 "`except_every`; `in` and `value` require each other, `else` requires `from`, "
                 "`not_in` requires `every`, and `except_every` requires `in`");
        return kind;
    }

    // Returns the integer at the key; 0 if the key is absent. Records a problem if the value is
    // below `least`.
    std::int64_t number(const Json& json, const std::string& path, const char* key,
                        std::int64_t least) {
        if (!json.contains(key)) return 0;
        const Json& value = json[key];
        if (value.is_number_integer() && value.get<std::int64_t>() >= least)
            return value.get<std::int64_t>();
        note(join(path, key), "must be a whole number of at least " + std::to_string(least));
        return 0;
    }

    void parse_rope_types(const Json& types, Family& family) {
        for (const auto& [word, kind] : types.items()) {
            const auto known = by_name(kRopeKinds, kind.is_string() ? kind.get<std::string>() : "");
            if (known)
                family.rope_types.emplace(word, *known);
            else
                note("rope_types." + word, "must be plain, linear, wavelength, yarn or long");
        }
    }

    void parse_weights(const Json& weights, Family& family) {
        if (!weights.is_array() || weights.empty()) return note("weights", "must be a list");
        std::set<std::string> written;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            const std::string path = "weights[" + std::to_string(i) + "]";
            WeightRule rule = parse_rule(weights[i], path);
            if (!written.insert(rule.native + " if " + rule.condition + " of " + rule.layers)
                     .second)
                note(path + ".native", "is written by two rules: " + rule.native);
            check_kind(rule.layers, path, family);
            if (rule.stage == Stage::Mtp) check_mtp_names(rule, path, family);
            family.weights.push_back(std::move(rule));
        }
    }

    void check_kind(const std::string& layers, const std::string& path, const Family& family) {
        const std::string kind = layers.starts_with('!') ? layers.substr(1) : layers;
        if (!kind.empty() && !family.layer_kinds.contains(kind))
            note(path + ".layers", "must be one of the kinds that \"layers\" lists, not " + kind);
    }

    void parse_packed(const Json& rules, Family& family) {
        if (!rules.is_array()) return note("packed", "must be a list");
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const std::string path = "packed[" + std::to_string(i) + "]";
            only(rules[i], path, {"hf", "of", "packing", "if", "layers"});
            if (!rules[i].is_object()) continue;
            PackedRule rule;
            rule.hf = text(rules[i], path, "hf");
            rule.of = names(rules[i].value("of", Json()), path + ".of");
            rule.condition = choice(rules[i], path, "if");
            rule.layers = choice(rules[i], path, "layers");
            check_kind(rule.layers, path, family);
            if (const auto packing = by_name(kPackings, choice(rules[i], path, "packing")))
                rule.packing = *packing;
            else
                note(path + ".packing", "must be stacked, transposed or interleaved");
            for (const std::string& name : rule.of)
                if (name.find("{layer}") == std::string::npos ||
                    name.find("{expert}") == std::string::npos)
                    note(path + ".of", "must have {layer} and {expert}: " + name);
            family.packed.push_back(std::move(rule));
        }
    }

    void parse_carried(const Json& rules, Family& family) {
        if (!rules.is_array()) return note("carried", "must be a list");
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const std::string path = "carried[" + std::to_string(i) + "]";
            only(rules[i], path, {"native", "hf", "stage"});
            if (!rules[i].is_object()) continue;
            CarriedRule rule{text(rules[i], path, "native"), text(rules[i], path, "hf")};
            const auto stage = by_name(kStages, choice(rules[i], path, "stage"));
            if (stage != Stage::First && stage != Stage::Last)
                note(path + ".stage", "must be first or last");
            else
                rule.stage = *stage;
            family.carried.push_back(std::move(rule));
        }
    }

    void parse_copies(const Json& rules, Family& family) {
        if (!rules.is_array()) return note("copies", "must be a list");
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const std::string path = "copies[" + std::to_string(i) + "]";
            only(rules[i], path, {"hf", "of", "if"});
            if (!rules[i].is_object()) continue;
            CopyRule rule{text(rules[i], path, "hf"), text(rules[i], path, "of"),
                          choice(rules[i], path, "if")};
            if (rule.hf.find("{layer}") == std::string::npos)
                note(path + ".hf",
                     "must contain {layer}, because each prediction layer (MTP) has its own copy");
            family.copies.push_back(std::move(rule));
        }
    }

    WeightRule parse_rule(const Json& json, const std::string& path) {
        WeightRule rule;
        only(json, path,
             {"native", "hf", "shape", "operation", "split", "stage", "if", "layers", "groups",
              "by", "strands", "repeat", "add", "dtype"});
        if (!json.is_object()) return rule;
        rule.native = text(json, path, "native");
        rule.hf = names(json.value("hf", Json()), path + ".hf");
        parse_shapes(json.value("shape", Json()), path + ".shape", rule);
        rule.condition = choice(json, path, "if");
        rule.layers = choice(json, path, "layers");
        set_operation(choice(json, path, "operation"), path, rule);
        const bool copies = rule.operation == Operation::Copy;
        if (const auto split =
                by_name(kSplits, or_first(choice(json, path, "split"), copies ? "none" : "column")))
            rule.split = *split;
        else
            note(path + ".split", "must be none, column or row");
        const bool layer = rule.native.find("{layer}") != std::string::npos;
        const bool mtp = rule.native.find("{mtp}") != std::string::npos;
        const std::string stage = or_first(choice(json, path, "stage"), "layer");
        if (const auto known = by_name(kStages, stage);
            known && layer == (stage == "layer") && mtp == (stage == "mtp"))
            rule.stage = *known;
        else
            note(path + ".stage",
                 "must be layer for a tensor with {layer}, mtp for a tensor with {mtp}, and first "
                 "or last for any other tensor");
        if (rule.split == Split::Row && (rule.shapes[0].size() < 2 || rule.hf.size() != 1))
            note(path + ".split",
                 "can be row only if the tensor has two or more dimensions and `hf` has one name");
        const Json repeat = object(json, path, "repeat");
        for (const auto& [name, count] : repeat.items())
            rule.repeat["{" + name + "}"] =
                count.is_string() ? count.get<std::string>() : count.dump();
        if (json.contains("add") && json["add"].is_number()) rule.add = json["add"].get<double>();
        rule.keeps_fp32 = json.contains("dtype");
        if (rule.keeps_fp32 && json["dtype"] != "fp32")
            note(path + ".dtype",
                 "can only be fp32; without `dtype`, the tensor has the checkpoint's type");
        if (rule.operation == Operation::Strands) parse_strands(json, path, rule);
        check_placeholders(rule, path);
        return rule;
    }

    // Parses either one shape, or a list with one shape per source.
    void parse_shapes(const Json& json, const std::string& path, WeightRule& rule) {
        const bool each = json.is_array() && !json.empty() && json[0].is_array();
        for (const Json& one : each ? json : Json::array({json}))
            rule.shapes.push_back(names(one, path));
        if (each && rule.shapes.size() != rule.hf.size())
            note(path, "must be one list of dims, or one list for each name in hf");
    }

    void parse_strands(const Json& json, const std::string& path, WeightRule& rule) {
        rule.groups = text(json, path, "groups");
        const std::string by = text(json, path, "by");
        if (by != "group" && by != "strand") note(path + ".by", "must be group or strand");
        rule.by_group = by == "group";
        const Json strands = json.value("strands", Json());
        if (!strands.is_array() || strands.empty())
            return note(path + ".strands", "must be a list");
        for (std::size_t i = 0; i < strands.size(); ++i) {
            const std::string at = path + ".strands[" + std::to_string(i) + "]";
            only(strands[i], at, {"of", "begin", "rows", "times", "step", "block"});
            if (!strands[i].is_object()) continue;
            StrandRule strand;
            const Json of = strands[i].value("of", Json(0));
            if (of.is_number_unsigned() && of.get<std::size_t>() < rule.hf.size())
                strand.of = of.get<std::size_t>();
            else
                note(at + ".of", "must be an index into `hf`, counted from 0");
            strand.rows = text(strands[i], at, "rows");
            strand.begin = or_first(choice(strands[i], at, "begin"), "0");
            strand.times = or_first(choice(strands[i], at, "times"), "1");
            strand.step = or_first(choice(strands[i], at, "step"), "0");
            if (strand.times != "1" && !strands[i].contains("step"))
                note(at + ".step",
                     "is missing: `times` requires `step`, the number of rows from one repetition "
                     "to "
                     "the next");
            strand.block = or_first(choice(strands[i], at, "block"), strand.rows.c_str());
            rule.strands.push_back(std::move(strand));
        }
    }

    // Records a problem if the family has no mtp_from and a HuggingFace name lacks {layer}. Without
    // mtp_from, the MTP layers use the decoder layers' names and continue their numbers.
    void check_mtp_names(const WeightRule& rule, const std::string& path, const Family& family) {
        for (const std::string& name : rule.hf)
            if (family.mtp_from.empty() && name.find("{layer}") == std::string::npos)
                note(path + ".hf", "must contain {layer}, because `native` contains it: " + name);
    }

    // Records a problem if only the native name or only a HuggingFace name contains a placeholder.
    // For example, a HuggingFace name without {layer} would stand for the same tensor in every
    // layer.
    void check_placeholders(const WeightRule& rule, const std::string& path) {
        std::vector<std::string> placeholders{"{layer}", "{expert}"};
        for (const auto& [name, count] : rule.repeat) placeholders.push_back(name);
        if (!rule.repeat.empty() && rule.stage != Stage::First && rule.stage != Stage::Last)
            note(path + ".repeat", "is allowed only for tensors of stage first or last");
        for (const std::string& placeholder : placeholders) {
            const bool in_native = rule.native.find(placeholder) != std::string::npos;
            if (rule.stage == Stage::Mtp && placeholder == "{layer}") continue;
            for (const std::string& name : rule.hf)
                if ((name.find(placeholder) != std::string::npos) != in_native)
                    note(path + ".hf",
                         "must have " + placeholder +
                             " if and only if `native` contains this placeholder: " + name);
        }
        if (rule.native.find("{expert}") != std::string::npos && rule.stage != Stage::Layer)
            note(path + ".native", "has {expert} without {layer}");
    }

    void check_constants(const Family& family) {
        for (const auto& [name, value] : family.constants.items()) {
            if (!value.is_object()) continue;
            if (value.contains("not")) {
                only(value, "constants." + name, {"not", "missing"});
                text(value, "constants." + name, "not");
                continue;
            }
            if (value.contains("is")) {
                only(value, "constants." + name, {"is", "in", "then", "else"});
                text(value, "constants." + name, "is");
                if (!holds<std::vector<std::string>>(value.value("in", Json())))
                    note("constants." + name + ".in", "must be a list of HuggingFace keys");
                continue;
            }
            const auto kind = value.find("layers");
            if (value.size() != 1 || kind == value.end() || !kind->is_string() ||
                !family.layer_kinds.contains(kind->get<std::string>()))
                note("constants." + name,
                     "must be a value, {\"layers\": KIND}, {\"not\": KEY} or "
                     "{\"is\": WORD, \"in\": KEYS}");
        }
    }

    void set_operation(const std::string& name, const std::string& path, WeightRule& rule) {
        for (const OperationRow& row : kOperations) {
            if (or_first(name, "copy") != row.name) continue;
            rule.operation = row.operation;
            if (row.sources != 0 && rule.hf.size() != row.sources)
                note(path + ".hf",
                     "must name " + std::to_string(row.sources) + " tensors for " + row.name);
            return;
        }
        note(path + ".operation", "must be copy, qkv, gate_up or strands");
    }

    std::string choice(const Json& json, const std::string& path, const char* key) {
        return json.contains(key) ? text(json, path, key) : "";
    }
    static std::string or_first(const std::string& value, const char* otherwise) {
        return value.empty() ? otherwise : value;
    }

    std::string where_;
    std::string problem_;
};

}  // namespace

Result<Family> parse_family(std::string_view text, const std::string& where) {
    const auto json = parse_json(text);
    if (!json) return fail(ErrorCode::InvalidArgument, where + ": " + json.error().message);
    return FamilyParser(where).parse(*json);
}

const char* name_of(Operation operation) {
    for (const OperationRow& row : kOperations)
        if (row.operation == operation) return row.name;
    return "";
}

const char* name_of(Split split) {
    for (const auto& [name, value] : kSplits)
        if (value == split) return name;
    return "";
}

}  // namespace roll::families
