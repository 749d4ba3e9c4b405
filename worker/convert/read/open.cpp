#include "worker/convert/read/open.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "common/number.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/read/adapter_place.hpp"
#include "worker/convert/read/deepspeed.hpp"
#include "worker/convert/read/dist.hpp"
#include "worker/convert/read/hf.hpp"
#include "worker/convert/read/job_state.hpp"
#include "worker/convert/read/mca.hpp"
#include "worker/convert/read/megatron.hpp"
#include "worker/convert/read/nemo.hpp"
#include "worker/convert/read/state_info.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

// Opens the optimizer state source.state if the checkpoint stores it outside of the weights' files.
// Returns true if the state is open. Returns false if the caller must open the state with
// open_dist(), because the same files store weights and state.
Result<bool> open_state(Source& source, const families::Families& families) {
    const fs::path& directory = source.directory;
    const auto apart = optimizer_directory(directory);
    if (apart && apart->filename() == kOptimizerPart) {
        ROLL_TRY_VOID(open_dist_optimizer(source, families, *apart));
        return true;
    }
    if (source.format == Format::TorchDist || source.format == Format::Dcp) return false;
    if (source.format != Format::Mca)
        return fail(ErrorCode::InvalidArgument,
                    directory.string() + " is of format " + name_of(source.format) +
                        "; --state is only for torch_dist and fsdp_dtensor, and for mca with an "
                        "optimizer's state");
    ROLL_TRY_VOID(open_mca(source, families));
    ROLL_TRY_VOID(read_job_state(source));
    return true;
}

// Returns the directory that the user probably meant by `directory`: the model that Roll has
// exported there, or the newest checkpoint (step-N of Roll, checkpoint-N of the HuggingFace
// Trainer); nullopt if there is none.
std::optional<fs::path> model_below(const fs::path& directory) {
    for (const char* name : {"hf", "export/hf"})
        if (path_exists(directory / name)) return directory / name;
    std::optional<fs::path> newest;
    std::uint64_t newest_step = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored)) {
        const std::string name = entry.path().filename().string();
        for (const std::string_view prefix : {"step-", "checkpoint-"}) {
            if (!name.starts_with(prefix)) continue;
            const std::size_t end = std::min(name.find('.'), name.size());
            const auto step =
                parse_number<std::uint64_t>(name.substr(prefix.size(), end - prefix.size()));
            if (!step || (newest && *step <= newest_step)) continue;
            newest = entry.path();
            newest_step = *step;
        }
    }
    return newest;
}

}  // namespace

Result<Format> detect_format(const fs::path& directory) {
    if (!path_exists(directory))
        return fail(ErrorCode::NotFound, directory.string() + " does not exist");
    const auto distributed = dist_directory(directory);
    const bool has_weights = distributed || megatron_directory(directory) ||
                             formats::find_hf_weights(directory).has_value();
    if (!has_weights && !find_adapters(directory).empty()) return Format::Peft;
    if (path_exists(directory / "mca_config.json") && !distributed) return Format::Mca;
    if (formats::find_hf_weights(directory)) return Format::Hf;
    if (distributed) return dist_format(*distributed);
    if (megatron_directory(directory)) return Format::Megatron;
    if (is_nemo(directory)) return Format::Nemo;
    if (deepspeed_directory(directory)) return Format::DeepSpeed;
    if (path_exists(directory / "config.json")) return Format::Hf;
    std::error_code error;
    if (fs::directory_iterator(directory, error); error == std::errc::permission_denied)
        return fail(ErrorCode::Refused,
                    "cannot list " + directory.string() + ": " + error.message());
    const auto below = model_below(directory);
    return fail(ErrorCode::NotFound,
                directory.string() +
                    " is not a known checkpoint format: it has none of mca_config.json, "
                    "config.json, .metadata and mp_rank_00" +
                    (below ? "; did you mean " + below->string() + "?" : ""));
}

Result<Source> open_source(const fs::path& directory, const families::Families& families,
                           const OpenOptions& options) {
    const fs::path& config = options.config;
    Source source;
    source.matching.strictness = options.strictness;
    source.state = options.state;
    source.directory = directory;
    source.storage.mapped = true;
    ROLL_TRY(source.format, detect_format(directory));
    if (options.config_suffices && source.format == Format::Hf &&
        !formats::find_hf_weights(directory)) {
        ROLL_TRY(source.config.hf_config, formats::read_hf_config(directory));
        ROLL_TRY_VOID(use_hf_config(source, families));
        return source;
    }
    if (!source.state.empty()) {
        ROLL_TRY(const bool opened, open_state(source, families));
        if (opened) return source;
    }
    switch (source.format) {
        case Format::Hf:
        case Format::Bin: ROLL_TRY_VOID(open_hf(source, families)); break;
        case Format::Mca: ROLL_TRY_VOID(open_mca(source, families)); break;
        case Format::TorchDist:
        case Format::FsdpDtensor:
        case Format::Dcp: ROLL_TRY_VOID(open_dist(source, families, config)); break;
        case Format::Megatron: ROLL_TRY_VOID(open_megatron(source, families, config)); break;
        case Format::Nemo: ROLL_TRY_VOID(open_nemo(source, families, config)); break;
        case Format::DeepSpeed: ROLL_TRY_VOID(open_deepspeed(source, families, config)); break;
        case Format::Peft:
            return fail(ErrorCode::InvalidArgument,
                        directory.string() + " is a LoRA adapter, not a model",
                        "rollctl merge BASE " + directory.string() +
                            " DST merges the adapter; rollctl convert converts the adapter to "
                            "another format");
    }
    return source;
}

}  // namespace roll::convert
