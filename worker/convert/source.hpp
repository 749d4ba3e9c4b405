// An opened checkpoint: every tensor found, checked against what the model's config says must be
// there, each matched with the parts of the model that it holds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/block_scale.hpp"
#include "worker/convert/lora.hpp"
#include "worker/convert/pieces.hpp"
#include "worker/convert/strictness.hpp"
#include "worker/families/families.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

// Bin: HuggingFace with torch files instead of safetensors, of targets; a source of it is Hf.
// FsdpDtensor: Megatron's FSDP, of targets; a source of it is Dcp.
enum class Format { Hf, Bin, Mca, TorchDist, Dcp, FsdpDtensor, Megatron, Nemo, Peft, DeepSpeed };

const char* name_of(Format format);

// By the files in the directory. NotFound: none that we know.
Result<Format> detect_format(const std::filesystem::path& directory);

struct SourceTensor {
    Stored stored;
    tensor::StridedView view;
    bool in_memory = false;  // not in a mapped file: its pages cannot be given back
};

struct Dropped {
    std::string file;
    std::string name;
    std::string rule;  // why it carries nothing
};

struct Source {
    std::filesystem::path directory;
    std::filesystem::path companions;  // where tokenizer and such are; empty: in `directory`
    Format format = Format::Hf;
    formats::McaConfig config;  // of an Hf source: derived, with the layout of one rank
    const families::Family* family = nullptr;
    std::vector<families::NativeTensor> native;
    Model model;
    std::vector<SourceTensor> tensors;
    std::vector<Dropped> dropped;
    Strictness strictness = Strictness::RaiseAll;
    std::string state;                               // "fp32_param", ...: what was read as weights
    std::set<int> absent;                            // HuggingFace tensors that nothing holds
    std::vector<std::string> surplus;                // "FILE NAME" of what no rule names
    std::map<int, Delta> deltas;                     // of HuggingFace tensors, by an adapter
    Json quantization;                               // what the config said of eight bits
    std::map<int, BlockScale> scales;                // of those of eight bits that have some
    std::map<int, tensor::DType> dtypes;             // of those that are read as another type
    std::vector<std::shared_ptr<const void>> files;  // the views are into these
    std::map<std::string, std::span<const std::byte>> archived;  // files in it, where it is a tar
    bool mapped = false;  // they are mapped files: pages that were read can be given back
};

struct OpenOptions {
    std::filesystem::path config = {};  // of a checkpoint that has none: a config.json, or where
    Strictness strictness = Strictness::RaiseAll;
    std::string state = {};  // of a distributed checkpoint's optimizer, instead of the weights
};

// Maps every file. Corrupt or InvalidArgument: a tensor that is missing, has another shape than the
// config says, or that no rule names; each error names tensor and file.
Result<Source> open_source(const std::filesystem::path& directory,
                           const families::Families& families, const OpenOptions& options = {});

}  // namespace roll::convert
