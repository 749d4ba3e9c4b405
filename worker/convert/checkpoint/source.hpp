// An opened checkpoint. Its tensors are checked against the model's config. Each tensor is matched
// with the parts of the model that the tensor holds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/bits.hpp"
#include "worker/convert/checkpoint/delta.hpp"
#include "worker/convert/checkpoint/format.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/convert/checkpoint/strictness.hpp"
#include "worker/families/families.hpp"
#include "worker/formats/mca.hpp"

namespace roll::convert {

struct SourceTensor {
    Stored stored;
    tensor::StridedView view;
    // true: the tensor is not in a mapped file, so it has no pages to release
    bool in_memory = false;
};

struct Dropped {
    std::string file;
    std::string name;
    std::string rule;  // reason why the tensor is dropped
};

// Changes that are made to the model's tensors when they are read. The keys are tensor numbers.
struct Overlay {
    std::map<int, Delta> deltas;          // changes by adapters
    std::map<int, BlockScale> scales;     // block scales of 8-bit weights
    std::map<int, BitsWeight> bits;       // weights of bitsandbytes; their views must not be read
    std::map<int, tensor::DType> dtypes;  // type of a tensor after it is read
    Json quantization;                    // quantization_config in the source's config
};

// The differences between the tensors in the files and the tensors of the model.
struct Matching {
    Strictness strictness = Strictness::RaiseAll;
    std::vector<Dropped> dropped;
    std::set<int> absent;              // the model's tensors, by number, that are in no file
    std::vector<std::string> surplus;  // tensors that no rule names, as "FILE NAME"
};

// The memory that the tensors' views refer to.
struct Storage {
    // objects that keep the memory alive
    std::vector<std::shared_ptr<const void>> files;
    // files inside a tar archive, by name
    std::map<std::string, std::span<const std::byte>> archived;
    bool mapped = false;  // true: `files` are mapped, so their pages can be released
};

struct Source {
    std::filesystem::path directory;
    // directory of the tokenizer and other companion files; empty: `directory`
    std::filesystem::path companions;
    Format format = Format::Hf;
    // native config; for an Hf source, it is derived from config.json and describes a single rank
    formats::McaConfig config;
    const families::Family* family = nullptr;
    std::vector<families::NativeTensor> native;
    Model model;
    std::string state;  // the optimizer state that is read as weights, such as "fp32_param"
    std::vector<SourceTensor> tensors;
    Matching matching;
    Overlay overlay;
    Storage storage;
};

}  // namespace roll::convert
