// Describes a conversion as data. For each target tensor, a plan lists the blocks of source tensors
// that are copied into the target tensor. Pure and printable. make_plan() checks that each element
// of the target is covered exactly once. It also checks that no source tensor is ignored: each must
// be used or be a replica. A replica holds the same part of the model as a used tensor, and is
// compared with the used tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/gradient_buffers.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

struct Copy {
    std::size_t source = 0;  // index in Source::tensors
    Shape source_begin;
    Shape target_begin;
    Shape size;  // size of the block along the dims of the HuggingFace tensor
    int hf = 0;  // number of the HuggingFace tensor in the model; the block begins at hf_begin
    Shape hf_begin;
    Placing source_placing = {};
    Placing target_placing = {};
    double add = 0;  // target value = source value + add, rounded to the source's type
};

struct TargetTensor {
    std::size_t file = 0;     // index in Plan::files
    std::size_t ordinal = 0;  // index among the file's tensors
    std::string section;
    tensor::TensorInfo info;
    Shape whole;  // `whole` and `origin` have the same meaning as in Stored
    Shape origin;
    std::vector<Copy> copies;
    bool padded = false;  // true: elements that no copy fills are zero
    Making making = Making::Copies;
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
};

struct TargetFile {
    std::string path;                         // path relative to the target's directory
    std::vector<tensor::TensorInfo> tensors;  // shapes as stored, including leading dims
    std::vector<std::string> sections;        // sections[i]: Stored::section of tensors[i]
    // the run's arguments, for the file of a Megatron rank
    Json args = nullptr;
    int megatron_version = 3;  // checkpoint_version, for the file of a Megatron rank
};

// Two blocks of source tensors that hold the same part of the model and must be bitwise equal.
struct Comparison {
    std::size_t first = 0;
    std::size_t second = 0;
    Shape first_begin;
    Shape second_begin;
    Shape size;
};

struct Plan {
    std::vector<TargetFile> files;
    std::vector<TargetTensor> tensors;  // target tensors in the order of `files`
    std::vector<Comparison> comparisons;
    // target tensors that are not written, because the source lacks a part of them
    std::vector<std::string> left_out;
    std::set<std::string> left_out_hf;         // names of the HuggingFace tensors in left_out
    std::int64_t bytes = 0;                    // size of the target's tensors in bytes
    std::int64_t parameters = 0;               // number of the model's parameters
    tensor::DType dtype = tensor::DType::F32;  // data type with the most bytes among the weights
    Json optimizer = nullptr;  // values of Megatron's optimizer; null: the target has no states
    // sizes of the buckets that store the optimizer's states; nullopt: not stored in buckets
    std::optional<BucketSizes> buckets = {};
};

// Plans the tensors that `layout` lists. Casts every floating-point tensor to `dtype`; if `dtype`
// is nullopt, keeps the source's types. Fails with InvalidArgument or Corrupt if a tensor is not
// completely covered; the message names the tensor.
Result<Plan> make_plan(const Source& source, std::vector<Stored> layout,
                       std::optional<tensor::DType> dtype);

// Compares the checkpoint with its model. Returns the differences that the source's strictness mode
// warns about or reports.
Disagreement disagreement_of(const Source& source, const Plan& plan);

// Prints one line per tensor.
std::string to_text(const Source& source, const Plan& plan);

}  // namespace roll::convert
