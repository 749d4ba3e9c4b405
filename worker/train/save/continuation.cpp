#include "worker/train/save/continuation.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/files.hpp"
#include "common/json.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"
#include "worker/train/save/dist_part.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

bool is_damaged(const checkpoint::Choice& choice, const fs::path& directory) {
    return std::find(choice.damaged.begin(), choice.damaged.end(), directory) !=
           choice.damaged.end();
}

checkpoint::Layout layout_of(const spec::TrainSpec& spec) {
    const spec::ParallelSpec& p = spec.parallel;
    return {p.dp, p.tp, p.pp, p.vpp, p.cp, p.ep};
}

// Returns the settings that decide how samples are numbered, apart from the seed and the data.
std::string order_of(const spec::TrainSpec& spec) {
    if (spec.data.order == spec::SampleOrder::Megatron)
        return "megatron " + std::to_string(spec.steps * spec.global_batch_size);
    Json phases = Json::array();
    for (const spec::DataPhase& phase : spec.data.phases)
        phases.push_back({phase.step * spec.global_batch_size, phase.weights});
    const spec::DataSpec& data = spec.data;
    const bool is_packed = data.packing != spec::Packing::InOrder;
    const bool is_truncated = data.truncate != spec::Truncation::End;
    return std::string("roll") + (is_packed ? std::string(" ") + name_of(data.packing) : "") +
           (is_truncated ? std::string(" truncate ") + name_of(data.truncate) : "") +
           (data.weigh_tokens ? " by tokens " : " ") + phases.dump();
}

// The entry of one data file in checkpoint::State::data: "SAMPLES" or "SAMPLES HASH".
struct FileIdentity {
    explicit FileIdentity(const std::string& entry)
        : samples(entry.substr(0, entry.find(' '))),
          hash(entry.substr(std::min(samples.size() + 1, entry.size()))) {}
    bool differs(const FileIdentity& other) const {
        const bool both = !hash.empty() && !other.hash.empty();
        return both ? hash != other.hash : samples != other.samples;
    }
    std::string samples;
    std::string hash;  // hash of the file; empty if unknown
};

// Returns the indices of the training files whose contents differ between the two states. Returns
// an empty list if the states list different numbers of files.
std::vector<std::size_t> changed_files(const checkpoint::State& a, const checkpoint::State& b) {
    std::vector<std::size_t> changed;
    if (a.data.size() != b.data.size()) return changed;
    for (std::size_t i = 0; i < a.data.size(); ++i)
        if (FileIdentity(a.data[i]).differs(FileIdentity(b.data[i]))) changed.push_back(i);
    return changed;
}

}  // namespace

checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens) {
    checkpoint::State state;
    state.seed = spec.seed;
    state.dtype = name_of(spec.precision);
    state.layout = layout_of(spec);
    state.train_tokens = train_tokens;
    state.seq_length = spec.seq_length;
    state.order = order_of(spec);
    return state;
}

bool same_data(const checkpoint::State& a, const checkpoint::State& b) {
    const bool windows = a.seq_length == b.seq_length || a.seq_length == 0 || b.seq_length == 0;
    const bool files = a.data.empty() || b.data.empty() || a.data.size() == b.data.size();
    const bool order = a.order == b.order || a.order.empty() || b.order.empty();
    return windows && files && order && a.seed == b.seed && a.train_tokens == b.train_tokens &&
           changed_files(a, b).empty();
}

checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked) {
    if (!same_data(restored, asked)) {
        restored.left_out.clear();
        restored.recent.reset();  // other data may have other losses
    }
    // If a file is unchanged, but `asked` lacks the hash of the whole file, keep the hash that the
    // checkpoint's state has.
    const std::vector<std::string> before = std::exchange(restored.data, asked.data);
    for (std::size_t i = 0; before.size() == asked.data.size() && i < before.size(); ++i)
        if (!FileIdentity(before[i]).differs(FileIdentity(asked.data[i])) &&
            FileIdentity(asked.data[i]).hash.empty())
            restored.data[i] = before[i];
    restored.layout = asked.layout;
    restored.seed = asked.seed;
    restored.train_tokens = asked.train_tokens;
    restored.seq_length = asked.seq_length;
    restored.order = asked.order;
    return restored;
}

void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const fs::path& directory) {
    if (restored.dtype != asked.dtype)
        throw RankFailure(2, "train.precision: " + asked.dtype + " cannot continue " +
                                 directory.string() + ", whose precision is " + restored.dtype);
    if (!same_data(restored, asked))
        std::printf(
            "the seed, the corpus, its order or train.seq_length differs from %s: training "
            "continues on other data\n",
            directory.c_str());
    for (const std::size_t file : changed_files(restored, asked))
        std::printf("warning: the content of data.train[%zu] has changed since %s was written\n",
                    file, directory.c_str());
}

std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice) {
    const fs::path own = (fs::path(launch.output) / "checkpoints").lexically_normal();
    std::vector<checkpoint::Kept> recorded;
    // an error is ignored; a file with a stale NFS handle, for example, counts as missing
    std::error_code error;
    for (const fs::path& directory : candidates_of(launch)) {
        const auto name = checkpoint::parse_final_name(directory.filename().string());
        if (name && directory.parent_path().lexically_normal() == own)
            recorded.push_back({*name, !is_damaged(choice, directory),
                                !is_dist(directory) &&
                                    (fs::exists(directory / checkpoint::kOptimizerFile, error) ||
                                     fs::exists(directory / checkpoint::kOptimizerFolder, error))});
    }
    return recorded;
}

std::optional<std::int64_t> recorded_best(const fs::path& checkpoints,
                                          const std::vector<checkpoint::Kept>& recorded,
                                          std::int64_t best_step) {
    std::optional<std::int64_t> best;
    for (const checkpoint::Kept& kept : recorded) {
        const std::int64_t step = kept.name.step;
        if (kept.usable && step == best_step) return step;
        if (!kept.usable || (best && step <= *best)) continue;
        const auto text =
            read_file(checkpoints / checkpoint::final_name(kept.name) / checkpoint::kStateFile);
        const auto state = text ? checkpoint::decode_state(*text) : tl::unexpected(text.error());
        if (state && state->best.value && state->best_step == step) best = step;
    }
    return best;
}

checkpoint::Retention retention_of(const spec::TrainSpec& spec) {
    return {.keep = spec.checkpoint_keep,
            .keep_every = spec.checkpoint_keep_every,
            .optimizer = spec.checkpoint_keep_optimizer};
}

}  // namespace roll::train
