// Converts a checkpoint directory into another format, layout or type. Tensors are streamed, so
// that only a window of a tensor is in memory. The target appears complete or not at all.
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
    std::filesystem::path config = {};  // directory of the config if the source has none
    Strictness strictness = Strictness::RaiseAll;
    std::string state = {};                            // optimizer state to read instead of weights
    std::vector<std::filesystem::path> adapters = {};  // to merge into the weights
    bool unmerge = false;                              // subtract the adapters instead
    std::filesystem::path adapter_source = {};         // to convert; `source` is then the base
    std::optional<Format> to = {};                     // nullopt: Mca for an Hf source, else Hf
    formats::McaLayout layout = {};
    std::optional<bool> grouped_experts = {};  // nullopt: like the source
    std::optional<bool> local_names = {};
    std::int64_t vocab_divisor = 0;  // pads the vocabulary to multiples of this times tp; 0: off
    int megatron_version = 3;        // of a Megatron target; 0 to 2 are older than Megatron core
    bool newer_mtp_names = false;    // write "mtp_model_layer", Megatron's name since 0.17
    std::optional<tensor::DType> dtype = {};  // nullopt: unchanged; F8E4M3: blocks with scales
    std::int64_t shard_bytes = kShardBytes;
    std::string name = "model";                         // name in a NeMo target's configs
    std::optional<std::int64_t> model_max_length = {};  // new value in an Hf target's config
    // The type to which all floating tensors are cast; nullopt if they keep their types. With 8-bit
    // blocks, the tensors without blocks keep their types.
    std::optional<tensor::DType> cast() const {
        return dtype && tensor::is_castable(*dtype) ? dtype : std::nullopt;
    }
    Part part = {};                    // this process's part of the conversion
    int threads = 0;                   // 0: as many as the machine has cores, at most 4
    std::filesystem::path reuse = {};  // an earlier target whose identical files are linked
    bool overwrite = false;
    bool dry_run = false;
    bool verify = false;  // reads the target and compares it with the source
};

// Functions that a conversion calls from several threads, one call at a time.
struct Hooks {
    std::function<bool()> stopped = [] { return false; };
    std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto, auto) {
    };  // in bytes
    // Receives a description of a replica that differs. If this is empty, such a replica is an
    // error.
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
    Disagreement disagreement;          // the part that the request's strictness reports
    std::string plan;                   // text of the plan, for a dry run
    std::int64_t memory = 0;            // peak memory in bytes: windows and mapped pages
    std::int64_t disk_free = -1;        // free bytes on the target's disk; -1: unknown
    std::optional<Error> refusal = {};  // for a dry run: the error that a conversion would return
};

// Returns the differences between the checkpoint and its model that the source's strictness
// reports.
Disagreement disagreement_of(const Source& source, const Plan& plan);

// Compares the plan's replicas with each other, then writes the plan's tensors below `directory`.
// With several parts, does this part's share of both.
Result<void> carry_out(const Source& source, const Plan& plan,
                       const std::filesystem::path& directory, const Request& request,
                       const Hooks& hooks);

// Runs a whole conversion. Fails with Unavailable if a hook stopped it or if another part ended
// without a target.
Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks);

Json to_json(const Error& error);
Json to_json(const Report& report);

}  // namespace roll::convert
