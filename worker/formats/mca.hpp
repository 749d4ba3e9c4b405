// Checkpoint directories of ROLL's mcore_adapter: mca_config.json, a tracker file, and one torch
// file of weights for each (tensor, pipeline, expert) rank.
//
//   mca_config.json   latest_checkpointed_iteration.txt
//   iter_0000001/mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt
//
// The file of a rank holds the dict {"model": {name: tensor}}. With virtual stages, it holds
// {"model0": ..., "model1": ...}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/tensor/dtype.hpp"

namespace roll::formats {

// Largest size of a parallel axis that is read from a config.
inline constexpr int kRanksMax = 4096;

// The parallel layout of a model. `pipeline` is Megatron's layout string ("E,t*3|t*4,L"). If
// `pipeline` is empty, layers are split equally among the pipeline stages; account_for_*,
// first_layers and last_layers change this split.
struct McaLayout {
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int ep = 1;
    int etp = 0;  // expert tensor parallel size; 0: equal to tp
    bool account_for_embedding = false;
    bool account_for_loss = false;
    // numbers of layers of the first and of the last stage, in all chunks of the stage; 0: as many
    // as in the other stages
    int first_layers = 0;
    int last_layers = 0;
    std::string pipeline = {};
    friend bool operator==(const McaLayout&, const McaLayout&) = default;

    int expert_tp() const { return etp == 0 ? tp : etp; }
};

// Names of arguments that differ between the files that store a layout as Megatron's arguments.
struct LayoutNames {
    const char* where;  // prefix of an argument's name in error messages
    const char* tp = "tensor_model_parallel_size";
    const char* first_layers;
    const char* last_layers;
};

// Reads a layout. An argument that is null or absent has its default. Fails with Corrupt if a size
// is invalid.
Result<McaLayout> read_layout(const Json& args, const LayoutNames& names);

// Returns true if the argument is present and true.
bool is_true(const Json& args, const char* key);

struct McaConfig {
    // number of rows of the embedding and the output layer; 0: the vocabulary size
    std::int64_t padded_vocab = 0;
    std::string model_type;  // HuggingFace's model_type, which selects the family
    Json hf_config;          // the config.json of the exported model
    Json native;             // Megatron's config fields, as in mca_config.json
    McaLayout layout;
    // true: experts are named experts.linear_fc1.weightN; false: they are named
    // experts.local_experts.N
    bool grouped_experts = false;
    bool local_names = false;  // true: norms have the names of a model without TransformerEngine
};

// Sets the arguments that depend on a config's layout and names of tensors, and on the data type.
void set_layout(Json& args, const McaConfig& config, tensor::DType dtype, const LayoutNames& names);

// Parses mca_config.json. Unknown fields are kept in `native`; missing fields get their defaults.
// Fails with Corrupt if the model type or the HuggingFace config is missing, or if a size is
// invalid.
Result<McaConfig> parse_mca_config(std::string_view json);
Result<McaConfig> read_mca_config(const std::filesystem::path& directory);

// Returns the text of mca_config.json. If `local_names` is false, the weights must have
// TransformerEngine's names (norms under linear_qkv and linear_fc1), because ROLL's loader expects
// these names by default. `dtype` must be F32, F16 or BF16.
std::string mca_config_text(const McaConfig& config, tensor::DType dtype);

// Writes mca_config.json and the tracker file.
Result<void> write_mca_root(const std::filesystem::path& directory, const McaConfig& config,
                            tensor::DType dtype);

struct McaRank {
    int tp = 0;
    int pp = 0;
    int ep = 0;
    friend auto operator<=>(const McaRank&, const McaRank&) = default;
};

// Returns true if a run of this layout has a process with that rank. In Megatron, process r of a
// stage has the tensor-parallel rank tp = r % TP, the expert tensor-parallel rank etp = r % ETP and
// the expert-parallel rank ep = r / ETP % EP. If ETP differs from TP, a tp rank therefore occurs
// only with some ep ranks. TP must be a multiple of ETP.
bool mca_has_rank(const McaLayout& layout, const McaRank& rank);

// Returns the path of a rank's file, such as "iter_0000001/mp_rank_00_001/model_optim_rng.pt".
std::string mca_rank_file(const McaLayout& layout, const McaRank& rank);

// Returns the key of a chunk's tensors in a rank's file. The key is "model", or "model0", "model1",
// ... with virtual stages.
std::string mca_chunk_key(const McaLayout& layout, int chunk);

// Returns the directory of the iteration that the tracker file names (a number or "release").
// Without a tracker file, returns iter_0000001. Fails with Corrupt if the tracker file contains
// neither a number nor "release".
Result<std::filesystem::path> mca_iteration_directory(const std::filesystem::path& directory);

}  // namespace roll::formats
