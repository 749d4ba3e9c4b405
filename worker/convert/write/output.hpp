// The output of a conversion and the way in which it is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/format.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/write/parts.hpp"

namespace roll::convert {

constexpr std::int64_t kShardBytes = 5'000'000'000;

// The target of a conversion.
struct Output {
    std::filesystem::path target;
    std::optional<Format> to = {};  // format of the target; nullopt: Mca for an Hf source, else Hf
    formats::McaLayout layout = {};
    // form of the experts in the target (mca.hpp); nullopt: same as in the source
    std::optional<bool> grouped_experts = {};
    std::optional<bool> local_names = {};
    // the vocabulary is padded to a multiple of (this number * tp); 0: no padding
    std::int64_t vocab_divisor = 0;
    // checkpoint version of a Megatron target; 0 to 2: a version before Megatron core
    int megatron_version = 3;
    // true: write "mtp_model_layer", Megatron's name since version 0.17
    bool newer_mtp_names = false;
    // type of the weights; nullopt: unchanged; F8E4M3: 8-bit blocks with scales
    std::optional<tensor::DType> dtype = {};
    std::int64_t shard_bytes = kShardBytes;
    // name of the model in a NeMo target's configs
    std::string name = "model";
    bool optimizer = false;  // true: a torch_dist or mca target also gets the optimizer's state
    // Megatron's kind of distributed optimizer whose state is written
    std::string optimizer_kind = kFullyReshardable;
    // For the kind dp_reshardable: BucketRule::size, and the type of the gradients that the keys
    // name.
    std::int64_t bucket_size = 0;
    tensor::DType grad_dtype = tensor::DType::F32;
    // model_max_length to set in an Hf target's config
    std::optional<std::int64_t> model_max_length = {};
    // Returns true if the optimizer's state is written in buckets.
    bool in_buckets() const { return optimizer && optimizer_kind == kDpReshardable; }
    // Returns the type to which all floating-point tensors are cast; nullopt if there is no such
    // type. With F8E4M3, there is none: some tensors become 8-bit blocks, and the others keep their
    // types.
    std::optional<tensor::DType> cast() const {
        return dtype && tensor::is_castable(*dtype) ? dtype : std::nullopt;
    }
};

// The way in which a conversion runs.
struct Run {
    Part part = {};   // this process's part of the conversion
    int threads = 0;  // number of threads; 0: as many as the machine has cores, at most 4
    std::filesystem::path reuse = {};  // an earlier target whose identical files are linked
    bool overwrite = false;
    bool dry_run = false;
    bool verify = false;  // true: read the target again and compare it with the source
};

// Functions that a conversion calls. Several threads call them, but only one call runs at a time.
struct Hooks {
    std::function<bool()> stopped = [] { return false; };
    std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto, auto) {
    };  // `done` and `total` are in bytes
    // Receives a description of each replica that differs from the first copy of the same part of
    // the model. If `differs` is empty, such a replica is an error.
    std::function<void(const std::string& what)> differs = {};
};

struct Report {
    Format from = Format::Hf;
    Format to = Format::Hf;
    std::string model_type;
    std::filesystem::path target;
    std::size_t tensors = 0;
    std::size_t files = 0;
    std::size_t reused = 0;  // number of files linked from Run::reuse
    std::int64_t bytes = 0;
    std::int64_t parameters = 0;
    tensor::DType dtype = tensor::DType::F32;
    std::vector<Dropped> dropped;
    Disagreement disagreement;    // the differences that the source's strictness mode reports
    std::string plan;             // text of the plan, for a dry run
    std::int64_t memory = 0;      // peak memory in bytes: copy buffers and mapped pages
    std::int64_t disk_free = -1;  // free bytes on the target's disk; -1: unknown
    // the error with which the conversion would fail; only a dry run sets it
    std::optional<Error> refusal = {};
    // names of the tensors in kKeptFile, which Megatron does not read
    std::vector<std::string> kept = {};
};

}  // namespace roll::convert
