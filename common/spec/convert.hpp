// A convert or merge job in full: what roll-convert does for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// Directories are absolute. What is left out has the converter's default.
struct ConvertSpec {
    std::string source;                 // empty: a checkpoint that the launch names
    bool best = false;                  // of those: of the lowest validation loss, not the newest
    std::vector<std::string> adapters;  // a merge's
    std::string adapter;                // a conversion's, instead of the source's weights
    std::string target;
    std::string to;      // "hf", "mca", ...; empty: an HF source becomes MCA, anything else HF
    std::string config;  // whose config a source has that has none itself
    std::string strictness = "raise_all";  // one of Megatron's modes
    std::string state;                     // of the source's optimizer; empty: the weights
    bool unmerge = false;                  // of a merge: the adapters are taken out again
    std::string name;                      // in a NeMo target's configs; empty: "model"
    std::string dtype = "keep";            // keep, fp32, bf16, fp16
    int tp = 1;
    int pp = 1;
    int vpp = 1;
    int ep = 1;
    int etp = 0;  // 0: as tp
    std::string layout;
    bool account_for_embedding = false;
    bool account_for_loss = false;
    int first_layers = 0;  // of the first and last pipeline stage; 0: as the others
    int last_layers = 0;
    std::optional<bool> moe_grouped_gemm;
    std::string transformer_impl;     // transformer_engine, local; empty: as the source
    std::int64_t vocab_divisor = 0;   // 0: no padding
    std::string mtp_layer_name = "";  // "transformer_layer" if empty, or "mtp_model_layer"
    int megatron_version = 3;         // of checkpoints: 3, or one of those before Megatron's core
    std::int64_t max_shard_size = 5'000'000'000;
    std::int64_t model_max_length = 0;  // 0: as the source
    std::string reuse;  // an earlier target: files that are the same are linked to; empty: none
    bool overwrite = false;
    friend bool operator==(const ConvertSpec&, const ConvertSpec&) = default;
};

// Of a document of kind convert or merge.
Result<ConvertSpec> convert_spec(std::string_view document);

// The document of a job of that kind: convert, or merge if there are adapters.
std::string document_of(const ConvertSpec& spec);

}  // namespace roll::spec
