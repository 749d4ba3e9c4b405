// The specification of a convert or merge job for roll-convert.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// Directories are absolute. Fields that are left out have the converter's defaults.
struct ConvertSpec {
    std::string source;  // empty: a checkpoint from the launch file
    // If `source` is empty: use the checkpoint with the lowest validation loss instead of the
    // newest.
    bool best = false;
    std::vector<std::string> adapters;  // merge: adapters to merge into the source
    std::string adapter;                // convert: adapter to convert instead of the source
    std::string target;
    std::string to;      // "hf", "mca", ...; empty: an HF source becomes MCA, anything else HF
    std::string config;  // directory with the config, if the source has none
    std::string strictness = "raise_all";  // one of Megatron's modes
    std::string state;                     // optimizer state to convert; empty for the weights
    bool unmerge = false;                  // merge: remove the adapters instead of adding them
    std::string name;                      // name in a NeMo target's configs; empty for "model"
    std::string dtype = "keep";            // keep, fp32, bf16, fp16
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int ep = 1;
    int etp = 0;  // 0 means the same as tp
    std::string layout;
    bool account_for_embedding = false;
    bool account_for_loss = false;
    int first_layers = 0;  // layers of the first pipeline stage; 0 means as many as the others
    int last_layers = 0;   // layers of the last pipeline stage; 0 means as many as the others
    std::optional<bool> moe_grouped_gemm;
    std::string transformer_impl;     // transformer_engine or local; empty keeps the source's
    std::int64_t vocab_divisor = 0;   // 0 means no padding
    std::string mtp_layer_name = "";  // "mtp_model_layer", or empty for "transformer_layer"
    int megatron_version = 3;         // checkpoint_version: 3, or an older one before Megatron Core
    std::int64_t max_shard_size = 5'000'000'000;
    std::int64_t model_max_length = 0;  // 0 keeps the source's
    std::string reuse;  // an earlier target to hard-link equal files from; empty for none
    bool overwrite = false;
    friend bool operator==(const ConvertSpec&, const ConvertSpec&) = default;
};

// Reads a document of kind convert or merge.
Result<ConvertSpec> convert_spec(std::string_view document);

// Returns the job's document: of kind merge if there are adapters, else convert.
std::string document_of(const ConvertSpec& spec);

}  // namespace roll::spec
