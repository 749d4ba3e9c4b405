// A model family: maps a HuggingFace config and its tensors to the native config and tensors. A
// family is the content of a file in schemas/families; docs/families.md describes the grammar.
// Pure: families.hpp reads the files.
//
// "Native" names are Megatron's names of config fields (num_query_groups) and of tensors
// (decoder.layers.0.mlp.linear_fc1.weight), as in TransformerEngine and in ROLL's checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/train/model.hpp"

namespace roll::families {

// The way in which a native tensor is assembled from its HuggingFace source tensors.
enum class Operation {
    Copy,  // one source tensor, unchanged
    Qkv,   // sources q, k, v; for each key-value group: query heads, then key head, then value head
    GateUp,   // sources gate and up; each tensor-parallel shard has first gate, then up
    Strands,  // rows of the source tensors in the order that `strands` gives
};

// The dim that tensor parallelism splits, in torch's order: Column is dim 0, Row is dim 1.
enum class Split { None, Column, Row };

// The part of the model to which a tensor belongs. First and Last: the parts outside the layers in
// the first and last pipeline stage. Mtp: the multi-token prediction layers after the decoder.
enum class Stage { Layer, First, Last, Mtp };

// Decides from the HuggingFace config which layers are of this kind. `from`, `every`, `not_in` and
// `in` are keys of the config. With a list at key `in`, layer n (from 0) is of this kind if element
// n of the list equals `value`. Otherwise, layer n must pass these tests:
// - n is at least the number at key `from` (`from_else` if there is no such key);
// - n + 1 is divisible by the number at key `every`, but not by `except_every`;
// - the list at key `not_in` does not contain n.
// A test is skipped if its field is empty or 0, or if the config lacks its key.
struct LayerKind {
    std::string from;
    std::int64_t from_else = 0;
    std::string every;
    std::string not_in;
    std::string in;
    std::string value;
    std::int64_t except_every = 0;
};

// Selects rows of the source tensor `of`, whose rows form one block for each group of the rule. In
// block g, selects `times` ranges of `rows` rows. Range t begins at row begin + g * block + t *
// step. Both g and t count from 0. All fields except `of` are expressions (expression.hpp).
struct StrandRule {
    std::size_t of = 0;  // index of the source tensor
    std::string begin = "0";
    std::string rows;
    std::string times = "1";
    std::string step = "0";
    std::string block;  // number of rows of a block; empty: same as `rows`
};

struct WeightRule {
    std::string native;  // name; may contain {layer} or {mtp}, {expert}, and keys of `repeat`
    std::vector<std::string> hf;
    // Shapes of the source tensors: one per source, or one for all. For Qkv: the shape of one head.
    std::vector<std::vector<std::string>> shapes;
    Operation operation = Operation::Copy;
    Split split = Split::None;
    Stage stage = Stage::Layer;
    // native config field that must be true ("!FIELD": false); empty: the rule always applies
    std::string condition;
    std::string layers;  // kind of layers with the tensor ("!KIND": all others); empty: all layers
    // Number of groups of rows in a Strands tensor. Tensor parallelism divides the groups among
    // ranks. If `by_group` is true, the rows are ordered by group; otherwise by strand.
    std::string groups;
    bool by_group = false;
    std::vector<StrandRule> strands;
    // Placeholders and their counts. The rule describes one tensor for each number from 0 to count
    // - 1; the number replaces the placeholder. Allowed only in rules of tensors outside layers.
    std::map<std::string, std::string> repeat;
    double add = 0;  // native value = HuggingFace value + add, rounded to the tensor's type
    bool keeps_fp32 = false;  // true: the tensor stays F32 when the model is cast
};

// How one HuggingFace tensor packs the tensors of several rules for all experts. Stacked: shape
// [experts, ...]; an expert's tensors are concatenated. Transposed: like Stacked, but each expert's
// block is transposed. Interleaved: like Transposed, but the rows of an expert's tensors alternate.
enum class Packing { Stacked, Transposed, Interleaved };

struct PackedRule {
    std::string hf;               // name of the tensor on disk; contains {layer}
    std::vector<std::string> of;  // names of the packed tensors; contain {layer} and {expert}
    Packing packing = Packing::Stacked;
    std::string condition;  // a native config field; if it is false, the tensors are not packed
    std::string layers;
};

// HuggingFace tensors that are copied unchanged; only the prefix of their name changes.
struct CarriedRule {
    std::string native;
    std::string hf;
    Stage stage = Stage::First;
};

// A second name for a tensor. HuggingFace files store the tensor named `of` again under the name
// `hf`, once for each multi-token prediction layer.
struct CopyRule {
    std::string hf;  // the second name; contains {layer}
    std::string of;
    std::string condition;  // a native config field; if it is false, there is no copy
};

struct Family {
    std::string name;
    std::string model_type;  // HuggingFace model_type for new configs; the first of model_types
    std::vector<std::string> model_types;  // HuggingFace model types that the file covers
    Json hf_defaults;  // HuggingFace keys and values of a config that is created from sizes
    // Native fields. Each has the paths of the HuggingFace keys that may set it.
    std::vector<std::pair<std::string, std::vector<std::string>>> config;
    Json defaults;         // values of native fields whose HuggingFace key is absent
    Json nulls;            // values of native fields whose HuggingFace key is present and null
    Json constants;        // native fields with fixed values or computed values
    Json requires_values;  // maps a HuggingFace key to its allowed values
    std::map<std::string, LayerKind> layer_kinds;
    // kinds of rotary embedding, by their HuggingFace names
    std::map<std::string, spec::RopeScaling::Kind> rope_types;
    std::vector<WeightRule> weights;
    std::vector<PackedRule> packed;
    std::vector<CarriedRule> carried;
    std::vector<CopyRule> copies;
    // The tensors of an MTP layer have the names of a decoder layer, with the prefix mtp_to instead
    // of mtp_from. If both are empty, MTP layers continue the numbers of the decoder's layers.
    std::string mtp_from;
    std::string mtp_to;
    std::vector<std::string> drop;  // names of HuggingFace tensors that hold no model data
    // Maps the prefix of a tensor's name on disk to the prefix of its name in the rules.
    std::map<std::string, std::string> spellings;
};

// Parses a family file. Fails with InvalidArgument; the message has `where` and the JSON path of
// the first problem.
Result<Family> parse_family(std::string_view json, const std::string& where);

const char* name_of(Operation operation);
const char* name_of(Split split);

}  // namespace roll::families
