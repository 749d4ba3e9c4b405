// A conversion as data: which boxes of which source tensors make each tensor of the target. Pure,
// printable, and checked: every target is covered exactly once, every source tensor is used or
// compared with the replica that is.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

struct Copy {
    std::size_t source = 0;  // index in Source::tensors
    Shape source_begin;
    Shape target_begin;
    Shape size;  // by the HuggingFace tensor's dims
    int hf = 0;  // the HuggingFace tensor that the box is of, and where in it
    Shape hf_begin;
    Placing source_placing = {};
    Placing target_placing = {};
    double add = 0;  // target = source + add, rounded to the source's type
};

struct TargetTensor {
    std::size_t file = 0;     // index in Plan::files
    std::size_t ordinal = 0;  // among the file's tensors
    std::string section;
    tensor::TensorInfo info;
    Shape whole;  // and origin: as Stored has them
    Shape origin;
    std::vector<Copy> copies;
    bool padded = false;  // what no copy fills is zero
    Making making = Making::Copies;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
};

struct TargetFile {
    std::string path;                         // from the target's directory
    std::vector<tensor::TensorInfo> tensors;  // shapes as the file has them: dims in front included
    std::vector<std::string> sections;        // of each tensor
    Json args = nullptr;                      // of a Megatron rank's file: the run's arguments
    int megatron_version = 3;                 // of such a file
};

// Two places that hold the same part of the model and must be equal, bit for bit.
struct Comparison {
    std::size_t first = 0;
    std::size_t second = 0;
    Shape first_begin;
    Shape second_begin;
    Shape size;
};

struct Plan {
    std::vector<TargetFile> files;
    std::vector<TargetTensor> tensors;  // file by file
    std::vector<Comparison> comparisons;
    std::vector<std::string> left_out;  // the target's tensors that the source's absent ones are in
    std::set<std::string> left_out_hf;  // what of the model is in those
    std::int64_t bytes = 0;             // of the target's tensors
    std::int64_t parameters = 0;        // of the model
    tensor::DType dtype = tensor::DType::F32;  // that most of the bytes have
};

// What to make of each HuggingFace-described tensor: `layout` says which tensors the target has.
// `dtype` casts every floating tensor; nothing keeps the source's. InvalidArgument or Corrupt names
// the tensor that is not covered.
Result<Plan> make_plan(const Source& source, std::vector<Stored> layout,
                       std::optional<tensor::DType> dtype);

// One line a tensor, for people.
std::string to_text(const Source& source, const Plan& plan);

}  // namespace roll::convert
