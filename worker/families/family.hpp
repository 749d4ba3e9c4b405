// A model family: how a HuggingFace config and its tensors map onto the native ones. The content of
// a file of schemas/families; docs/families.md is its grammar. Pure: who reads the files is
// worker/families.
//
// "Native" are Megatron's names, which ROLL's checkpoints have too, TransformerEngine spelling:
// config fields (hidden_size, num_query_groups, ...) and tensors
// (decoder.layers.0.mlp.linear_fc1.weight).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/model.hpp"

namespace roll::families {

// How a native tensor is made of its HuggingFace sources.
enum class Operation {
    Copy,     // one source, as it is
    Qkv,      // q, k, v: per key-value group its query heads, its key head, its value head
    GateUp,   // gate, up: one above the other, in each tensor-parallel shard
    Strands,  // any rows of the sources in any order: `strands`, below
};

// How tensor parallelism splits a native tensor: Column by dim 0, Row by dim 1 (as torch stores
// them).
enum class Split { None, Column, Row };

// Mtp: in the layers that predict further tokens, which follow the decoder's.
enum class Stage { Layer, First, Last, Mtp };

// Which layers are of a kind, by the HuggingFace config. `in`: a list with one word a layer, of
// which `value` counts. Without `in`, or where the config has no such list, one of: `from`, the
// first layer's number, `from_else` if the config has none; `every`, each n-th layer (layer + 1
// divides), those in the list `not_in` apart; `except_every`, all layers but each n-th. Any other
// key that the config lacks: every layer is.
struct LayerKind {
    std::string from;
    std::int64_t from_else = 0;
    std::string every;
    std::string not_in;
    std::string in;
    std::string value;
    std::int64_t except_every = 0;
};

// Rows of one source in as many blocks as its rule has groups: of block g the rows
// [begin + g * block + t * step, + rows) for t = 0 ... times - 1. All but `of` is arithmetic.
struct StrandRule {
    std::size_t of = 0;  // the source's index
    std::string begin = "0";
    std::string rows;
    std::string times = "1";
    std::string step = "0";
    std::string block;  // empty: rows
};

struct WeightRule {
    std::string native;  // may hold {layer} or {mtp}, {expert}, and names of `repeat`
    std::vector<std::string> hf;
    // Of each source, or of all if there is one; for Qkv that of one head.
    std::vector<std::vector<std::string>> shapes;
    Operation operation = Operation::Copy;
    Split split = Split::None;
    Stage stage = Stage::Layer;
    std::string condition;  // a native config field, or !field; empty: always
    std::string layers;     // a layer kind, or !kind; empty: every layer
    // Of Strands: tensor parallelism splits the groups. Group by group, or strand by strand.
    std::string groups;
    bool by_group = false;
    std::vector<StrandRule> strands;
    // A name in braces -> how often: one tensor for each number from 0, of rules without a layer.
    std::map<std::string, std::string> repeat;
    double add = 0;           // native = HuggingFace + add, rounded to the tensor's type
    bool keeps_fp32 = false;  // a cast to another type leaves it F32
};

// How a HuggingFace tensor on disk holds those that the rules name. Stacked: [experts, ...], one
// expert's tensors one above the other. Transposed: each expert's is turned. Interleaved: turned,
// and its tensors' rows alternate.
enum class Packing { Stacked, Transposed, Interleaved };

struct PackedRule {
    std::string hf;               // holds {layer}
    std::vector<std::string> of;  // hold {layer} and {expert}
    Packing packing = Packing::Stacked;
    std::string condition;  // a native config field; where it is false the tensors lie apart
    std::string layers;
};

// HuggingFace tensors that travel with the model as they are found, under names that begin
// otherwise.
struct CarriedRule {
    std::string native;
    std::string hf;
    Stage stage = Stage::First;
};

// A HuggingFace file holds tensor `of` a second time under `hf`, for each layer of multi-token
// prediction.
struct CopyRule {
    std::string hf;  // holds {layer}
    std::string of;
    std::string condition;  // a native config field; where it is false there is no copy
};

struct Family {
    std::string name;
    std::string model_type;                // the first of model_types, which new configs get
    std::vector<std::string> model_types;  // of the HuggingFace configs that the file covers
    Json hf_defaults;                      // for configs made from sizes
    std::vector<std::pair<std::string, std::vector<std::string>>> config;  // native <- HF paths
    Json defaults;         // native, where HF is silent
    Json nulls;            // native, where HF says null and that is not the same as silence
    Json constants;        // native
    Json requires_values;  // HF key -> allowed values
    std::map<std::string, LayerKind> layer_kinds;
    std::map<std::string, spec::RopeScaling::Kind> rope_types;  // by HF's word for it
    std::vector<WeightRule> weights;
    std::vector<PackedRule> packed;
    std::vector<CarriedRule> carried;
    std::vector<CopyRule> copies;
    // What a decoder layer's names begin with, and what those of a multi-token prediction's do
    // instead. Empty: they go on counting layers.
    std::string mtp_from;
    std::string mtp_to;
    std::vector<std::string> drop;  // HF tensors that carry nothing
    // What HF names on disk may begin with -> what the rules' begin with instead.
    std::map<std::string, std::string> spellings;
};

// InvalidArgument names `where` and the path of the first thing wrong.
Result<Family> parse_family(std::string_view json, const std::string& where);

const char* name_of(Operation operation);
const char* name_of(Split split);

}  // namespace roll::families
