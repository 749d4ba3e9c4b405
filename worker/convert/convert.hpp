// Converts a checkpoint directory into another format, layout or type. Streams the tensors: memory
// is limited to a window per tensor. The target appears complete or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "worker/convert/parts.hpp"

namespace roll::convert {

constexpr std::int64_t kShardBytes = 5'000'000'000;

struct Request {
    std::filesystem::path source;
    std::filesystem::path target;
    std::filesystem::path config = {};  // directory of the config, if the source has none
    Strictness strictness = Strictness::RaiseAll;
    std::string state = {};  // optimizer state to read instead of the weights
    std::vector<std::filesystem::path> adapters = {};  // merged into the weights
    bool unmerge = false;                              // subtracts the adapters instead
    std::filesystem::path adapter_source = {};  // adapters to convert; `source` is then their base
    std::optional<Format> to = {};              // nullopt: Mca for an Hf source, else Hf
    formats::McaLayout layout = {};
    std::optional<bool> grouped_experts = {};  // nullopt: as the source
    std::optional<bool> local_names = {};
    std::int64_t vocab_divisor = 0;  // pads the vocabulary to a multiple of this times tp; 0: not
    int megatron_version = 3;        // for a Megatron target; 0 to 2 are older than Megatron core
    bool newer_mtp_names = false;    // "mtp_model_layer", Megatron's name since 0.17
    std::optional<tensor::DType> dtype = {};  // nullopt: unchanged; F8E4M3: blocks with scales
    std::int64_t shard_bytes = kShardBytes;
    std::string name = "model";                         // for a NeMo target's configs
    std::optional<std::int64_t> model_max_length = {};  // replaced in an Hf target's config
    // The type that all floating tensors are cast to. With 8-bit blocks the other tensors keep
    // their types.
    std::optional<tensor::DType> cast() const {
        return dtype && tensor::is_castable(*dtype) ? dtype : std::nullopt;
    }
    Part part = {};                    // this process's part of the conversion
    int threads = 0;                   // 0: as many as the machine has cores, at most 4
    std::filesystem::path reuse = {};  // an earlier target: links to its identical files
    bool overwrite = false;
    bool dry_run = false;
    bool verify = false;  // reads the target back and compares
};

// Called from several threads, one at a time.
struct Hooks {
    std::function<bool()> stopped = [] { return false; };
    std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto, auto) {
    };  // bytes
    // Receives a description of a replica that differs. Without it such a replica is an error.
    std::function<void(const std::string& what)> differs = {};
};

struct Report {
    Format from = Format::Hf;
    Format to = Format::Hf;
    std::string model_type;
    std::filesystem::path target;
    std::size_t tensors = 0;
    std::size_t files = 0;
    std::size_t reused = 0;  // number of files linked from request.reuse
    std::int64_t bytes = 0;
    std::int64_t parameters = 0;
    tensor::DType dtype = tensor::DType::F32;
    std::vector<Dropped> dropped;
    Disagreement disagreement;          // as the request's strictness reports it
    std::string plan;                   // for a dry run
    std::int64_t memory = 0;            // peak bytes: windows and mapped pages
    std::int64_t disk_free = -1;        // free bytes on the target's disk; -1: unknown
    std::optional<Error> refusal = {};  // for a dry run: the error that a conversion would return
};

// Returns the differences that the source's strictness reports.
Disagreement disagreement_of(const Source& source, const Plan& plan);

// Compares the plan's replicas and writes its tensors below `directory`, or this part's share of
// both.
Result<void> carry_out(const Source& source, const Plan& plan,
                       const std::filesystem::path& directory, const Request& request,
                       const Hooks& hooks);

// Fails with Unavailable if a hook stopped it or another part ended without a target.
Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks);

Json to_json(const Error& error);
Json to_json(const Report& report);

}  // namespace roll::convert
