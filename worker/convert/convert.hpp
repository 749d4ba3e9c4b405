// Converts a checkpoint directory into another format, layout or type. Streams: memory is bounded
// by a window per tensor, whatever the model's size. The target appears whole or not at all.
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
    std::filesystem::path config = {};  // of a source that has none: where it is
    Strictness strictness = Strictness::RaiseAll;
    std::string state = {};  // of the source's optimizer, instead of the weights
    std::vector<std::filesystem::path> adapters = {};  // merged into the weights
    bool unmerge = false;                              // taken out of them instead
    std::filesystem::path adapter_source =
        {};                         // converted instead of the model, which is their base
    std::optional<Format> to = {};  // nothing: an Hf source becomes Mca, anything else Hf
    formats::McaLayout layout = {};
    std::optional<bool> grouped_experts = {};  // nothing: as the source, or not
    std::optional<bool> local_names = {};
    std::int64_t vocab_divisor = 0;  // rows of the vocabulary: of this times tp; 0: as many
    int megatron_version = 3;        // of a Megatron target: 0 to 2 are older than its core
    bool newer_mtp_names = false;    // "mtp_model_layer", as Megatron names it from 0.17 on
    std::optional<tensor::DType> dtype = {};  // nothing: kept; F8E4M3: in blocks with scales
    std::int64_t shard_bytes = kShardBytes;
    std::string name = "model";                         // in a NeMo target's configs
    std::optional<std::int64_t> model_max_length = {};  // rewritten in an Hf target's config
    // What every floating tensor is cast to. In blocks of eight bits the others keep their types.
    std::optional<tensor::DType> cast() const {
        return dtype && tensor::is_castable(*dtype) ? dtype : std::nullopt;
    }
    Part part = {};                    // that this process has of a conversion by several
    int threads = 0;                   // 0: the machine's, at most 4
    std::filesystem::path reuse = {};  // an earlier target: files that are the same are linked to
    bool overwrite = false;
    bool dry_run = false;
    bool verify = false;  // read the target back and compare
};

// Called from several threads at once, one at a time.
struct Hooks {
    std::function<bool()> stopped = [] { return false; };
    std::function<void(std::int64_t done, std::int64_t total)> progress = [](auto, auto) {
    };  // bytes
    // A replica that differs, in words; where nobody is told it is an error.
    std::function<void(const std::string& what)> differs = {};
};

struct Report {
    Format from = Format::Hf;
    Format to = Format::Hf;
    std::string model_type;
    std::filesystem::path target;
    std::size_t tensors = 0;
    std::size_t files = 0;
    std::size_t reused = 0;  // of these: links to files of request.reuse
    std::int64_t bytes = 0;
    std::int64_t parameters = 0;
    tensor::DType dtype = tensor::DType::F32;
    std::vector<Dropped> dropped;
    Disagreement disagreement;    // as the request's strictness tells it
    std::string plan;             // of a dry run
    std::int64_t memory = 0;      // bytes at most: windows, and mapped pages of what they read
    std::int64_t disk_free = -1;  // bytes where the target will be; -1: unknown
    std::optional<Error> refusal = {};  // of a dry run: what refuses the conversion itself
};

// As the source's strictness has it told.
Disagreement disagreement_of(const Source& source, const Plan& plan);

// Compares the plan's replicas and writes its tensors below a directory: of several parts its
// share.
Result<void> carry_out(const Source& source, const Plan& plan,
                       const std::filesystem::path& directory, const Request& request,
                       const Hooks& hooks);

// Unavailable: stopped by a hook, or another part has ended without a target.
Result<Report> convert(const Request& request, const families::Families& families,
                       const Hooks& hooks);

Json to_json(const Error& error);
Json to_json(const Report& report);

}  // namespace roll::convert
