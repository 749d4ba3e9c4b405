// The specification of a convert or merge job for roll-convert.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// Options of roll-convert. Directories are absolute. Fields that the job file leaves out have the
// converter's defaults.
struct ConvertSpec {
    std::string source;  // directory to read; empty: a checkpoint in the launch file
    // If `source` is empty: read the checkpoint with the lowest validation loss, and not the newest
    // checkpoint.
    bool best = false;
    std::vector<std::string> adapters;  // merge: adapters to merge into the source
    std::string adapter;                // convert: adapter to convert instead of the source
    bool merge = false;  // convert: the source is an adapter; merge it into its base model
    std::string target;
    std::string to;      // target format "hf", "mca", ...; empty: MCA if the source is HF, else HF
    std::string config;  // directory with the config, if `source` has no config
    std::string strictness = "raise_all";  // Megatron's mode for missing and unexpected keys
    std::string state;                     // optimizer state to convert; empty: convert the weights
    // convert: also convert the optimizer's state, to a torch_dist or mca target
    bool optimizer = false;
    // convert: Megatron's kind of the written optimizer state. For the kind dp_reshardable: the
    // number of elements of a full bucket (0: one bucket), and the type of the gradients.
    std::string optimizer_kind = "fully_reshardable";
    std::int64_t bucket_size = 0;
    std::string grad_dtype = "fp32";
    bool unmerge = false;        // merge: remove the adapters instead of adding them
    std::string name;            // name of the model in a NeMo target's configs; empty: "model"
    std::string dtype = "keep";  // element type of the target: keep, fp32, bf16, fp16
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int ep = 1;
    int etp = 0;  // tensor-parallel size of the experts; 0: same as tp
    std::string layout;
    bool account_for_embedding = false;
    bool account_for_loss = false;
    int first_layers = 0;  // layers of the first pipeline stage; 0: as many as the other stages
    int last_layers = 0;   // layers of the last pipeline stage; 0: as many as the other stages
    std::optional<bool> moe_grouped_gemm;
    std::string transformer_impl;  // transformer_engine or local; empty: the value of the source
    // the vocabulary is padded to a multiple of this number; 0: no padding
    std::int64_t vocab_divisor = 0;
    // prefix of the names of MTP layers, such as "mtp_model_layer"; empty: "transformer_layer"
    std::string mtp_layer_name = "";
    // Megatron's checkpoint_version; versions below 3 come from releases before Megatron Core
    int megatron_version = 3;
    std::int64_t max_shard_size = 5'000'000'000;
    // model_max_length of the target; 0: the value of the source
    std::int64_t model_max_length = 0;
    // Directory of an earlier target; empty: none. A new file that equals a file in this directory
    // byte for byte becomes a hard link to that file.
    std::string reuse;
    bool overwrite = false;
    friend bool operator==(const ConvertSpec&, const ConvertSpec&) = default;
};

// Reads a document of kind convert or merge.
Result<ConvertSpec> convert_spec(std::string_view document);

// Returns the job's document. Its kind is merge if `spec` has adapters, else convert.
std::string document_of(const ConvertSpec& spec);

}  // namespace roll::spec
