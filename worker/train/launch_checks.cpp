#include "worker/train/launch_checks.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <unistd.h>

#include "common/files.hpp"
#include "common/time.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

void refuse_axis(const char* name, int value) {
    if (value == 1) return;
    throw RankFailure(2, std::string("parallel.") + name + ": " + std::to_string(value) +
                             " is not supported yet; set it to 1");
}

const char* name_of(spec::Precision precision) {
    switch (precision) {
        case spec::Precision::Fp32: return "fp32";
        case spec::Precision::Fp64: return "fp64";
        case spec::Precision::Bf16: return "bf16";
    }
    return "";
}

bool is_damaged(const checkpoint::Choice& choice, const fs::path& directory) {
    return std::find(choice.damaged.begin(), choice.damaged.end(), directory) !=
           choice.damaged.end();
}

std::string host_name() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

}  // namespace

void check_spec(const spec::TrainSpec& spec) {
    refuse_axis("tp", spec.parallel.tp);
    refuse_axis("pp", spec.parallel.pp);
    refuse_axis("vpp", spec.parallel.vpp);
    refuse_axis("cp", spec.parallel.cp);
    refuse_axis("ep", spec.parallel.ep);
    const std::int64_t rows = spec.micro_batch_size * spec.parallel.dp;
    if (spec.global_batch_size < rows || spec.global_batch_size % rows != 0) {
        throw RankFailure(2, "train.global_batch_size: " + std::to_string(spec.global_batch_size) +
                                 " is not a multiple of micro_batch_size " +
                                 std::to_string(spec.micro_batch_size) + " x dp " +
                                 std::to_string(spec.parallel.dp));
    }
}

spec::TrainSpec checked_spec(const protocol::Launch& launch) {
    spec::TrainSpec spec = need(spec::train_spec(launch.document));
    check_spec(spec);
    return spec;
}

std::int64_t count_frozen(const std::vector<std::string>& freeze,
                          std::span<const ParameterSpec> specs) {
    for (const std::string& glob : freeze) {
        const bool used = std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
            return matches_any({glob}, spec.name);
        });
        if (!used)
            throw RankFailure(2, "model.freeze: no parameter's name matches " + glob +
                                     "; names are, for example, " + specs.front().name + " and " +
                                     specs[1].name + " (docs/training.md)");
    }
    std::int64_t frozen = 0;
    bool trains = false;
    for (const ParameterSpec& spec : specs) {
        const bool keeps = matches_any(freeze, spec.name);
        if (keeps) frozen += c10::multiply_integers(spec.sizes);
        trains |= !keeps;
    }
    if (!trains)
        throw RankFailure(2,
                          "model.freeze: all parameters are frozen, so there is nothing to train");
    return frozen;
}

std::int64_t frozen_factors(const spec::TrainSpec& spec, const spec::ModelConfig& model) {
    std::int64_t frozen = 0;
    for (const ParameterSpec& one : parameter_specs(model, split_layers(model, 0, 1))) {
        const bool looked_up = one.name.starts_with("embedding.") && !model.tied;
        if (one.sizes.size() < 2 || looked_up || !matches_any(spec.model.freeze, one.name))
            continue;
        frozen += c10::multiply_integers(one.sizes);
    }
    return frozen;
}

at::ScalarType dtype_of(spec::Precision precision) {
    switch (precision) {
        case spec::Precision::Fp32: return at::kFloat;
        case spec::Precision::Fp64: return at::kDouble;
        case spec::Precision::Bf16: return at::kBFloat16;
    }
    return at::kFloat;
}

std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec) {
    if (spec.export_format == spec::ExportFormat::None) return std::nullopt;
    const at::ScalarType weights = dtype_of(spec.precision);
    const at::ScalarType exported = spec.export_dtype == spec::ExportDtype::Bf16   ? at::kBFloat16
                                    : spec.export_dtype == spec::ExportDtype::Fp16 ? at::kHalf
                                                                                   : at::kFloat;
    const bool changes = exported != weights && (exported != at::kFloat || weights == at::kDouble);
    return changes ? std::optional(exported) : std::nullopt;
}

FabricOptions fabric_options(const protocol::Launch& launch, int rank) {
    FabricOptions options;
    options.rendezvous_file = fs::path(launch.logs) / "rendezvous";
    options.nonce = launch.nonce;
    options.prefix =
        std::to_string(launch.attempt.job.value) + "/" + to_string(launch.attempt.token);
    options.rank = rank;
    if (launch.nodes > 1) options.host = host_name();
    return options;
}

checkpoint::Layout layout_of(const spec::TrainSpec& spec) {
    const spec::ParallelSpec& p = spec.parallel;
    return {p.dp, p.tp, p.pp, p.vpp, p.cp, p.ep};
}

checkpoint::State first_state(const spec::TrainSpec& spec, std::int64_t train_tokens) {
    checkpoint::State state;
    state.seed = spec.seed;
    state.dtype = name_of(spec.precision);
    state.layout = layout_of(spec);
    state.train_tokens = train_tokens;
    state.seq_length = spec.seq_length;
    return state;
}

std::vector<fs::path> candidates_of(const protocol::Launch& launch) {
    std::vector<fs::path> directories;
    for (const protocol::WrittenCheckpoint& checkpoint : launch.checkpoints)
        if (!checkpoint.deleted) directories.emplace_back(checkpoint.directory);
    return directories;
}

std::vector<checkpoint::Kept> recorded_of(const protocol::Launch& launch,
                                          const checkpoint::Choice& choice) {
    const fs::path own = (fs::path(launch.output) / "checkpoints").lexically_normal();
    std::vector<checkpoint::Kept> recorded;
    std::error_code error;  // ignored, because a file with a stale handle counts as missing
    for (const fs::path& directory : candidates_of(launch)) {
        const auto name = checkpoint::parse_final_name(directory.filename().string());
        if (name && directory.parent_path().lexically_normal() == own)
            recorded.push_back({*name, !is_damaged(choice, directory),
                                fs::exists(directory / checkpoint::kOptimizerFile, error)});
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
        if (state && state->best_valid_loss && state->best_step == step) best = step;
    }
    return best;
}

checkpoint::Retention retention_of(const spec::TrainSpec& spec) {
    return {.keep = spec.checkpoint_keep,
            .keep_every = spec.checkpoint_keep_every,
            .optimizer = spec.checkpoint_keep_optimizer};
}

namespace {

// Returns a warning about files shorter than a window, or empty. They are not used, because a
// window never spans two files.
std::string unused_files(const data::Corpus& corpus, std::int64_t seq_length) {
    constexpr int kNamed = 3;
    if (corpus.cut() == data::Cut::BetweenDocuments) return {};
    std::size_t files = 0, tokens = 0;
    std::string names;
    for (const data::CorpusFile& file : corpus.files()) {
        if (file.train.size() > static_cast<std::size_t>(seq_length)) continue;
        tokens += file.train.size();
        if (files++ < kNamed) names += (names.empty() ? "" : ", ") + file.name;
    }
    if (files == 0) return {};
    return std::to_string(files) + " of " + std::to_string(corpus.files().size()) +
           " files of data.train (" + std::to_string(tokens) +
           " tokens) are shorter than a sequence of " + std::to_string(seq_length) +
           " and are not used: " + names + (files > kNamed ? ", ..." : "") +
           "; join them into one file, or make them lines of one .jsonl";
}

}  // namespace

std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned) {
    std::vector<std::string> warnings;
    if (learned.cut > 0 || learned.unlearned > 0)
        warnings.push_back("data.train: " + documents_line(learned, spec.seq_length) +
                           (learned.cut > 0
                                ? "; set train.seq_length to " +
                                      std::to_string(learned.longest - 1) + " to cut none"
                                : ""));
    if (std::string unused = unused_files(corpus, spec.seq_length); !unused.empty())
        warnings.push_back(std::move(unused));
    const std::string steps = std::to_string(spec.steps);
    if (spec.checkpoint_every == 0)
        warnings.push_back("checkpoint.every is 0: if the job is killed before step " + steps +
                           ", all its progress is lost");
    if (spec.checkpoint_every > spec.steps)
        warnings.push_back("checkpoint.every is " + std::to_string(spec.checkpoint_every) +
                           ": there is no checkpoint before the last step, " + steps);
    if (spec.checkpoint_keep_best && spec.valid_every == 0)
        warnings.push_back(
            "checkpoint.keep_best: the only validation is the last one; set train.valid_every");
    const bool none = spec.data.valid_fraction == 0 && spec.data.valid_files.empty();
    if (none && (spec.valid_every > 0 || spec.valid_at_start))
        warnings.push_back("data.valid holds out no tokens, so there are no validations");
    return warnings;
}

namespace {

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
    std::string hash;  // empty if unknown
};

// Returns the indices of the training files whose contents differ between the states; empty if the
// states do not list the same number of files.
std::vector<std::size_t> changed_files(const checkpoint::State& a, const checkpoint::State& b) {
    std::vector<std::size_t> changed;
    if (a.data.size() != b.data.size()) return changed;
    for (std::size_t i = 0; i < a.data.size(); ++i)
        if (FileIdentity(a.data[i]).differs(FileIdentity(b.data[i]))) changed.push_back(i);
    return changed;
}

}  // namespace

bool same_data(const checkpoint::State& a, const checkpoint::State& b) {
    const bool windows = a.seq_length == b.seq_length || a.seq_length == 0 || b.seq_length == 0;
    const bool files = a.data.empty() || b.data.empty() || a.data.size() == b.data.size();
    return windows && files && a.seed == b.seed && a.train_tokens == b.train_tokens &&
           changed_files(a, b).empty();
}

checkpoint::State continued(checkpoint::State restored, const checkpoint::State& asked) {
    if (!same_data(restored, asked)) restored.left_out.clear();
    // Keep the whole-file hash of a file if only the checkpoint has it.
    const std::vector<std::string> before = std::exchange(restored.data, asked.data);
    for (std::size_t i = 0; before.size() == asked.data.size() && i < before.size(); ++i)
        if (!FileIdentity(before[i]).differs(FileIdentity(asked.data[i])) &&
            FileIdentity(asked.data[i]).hash.empty())
            restored.data[i] = before[i];
    restored.layout = asked.layout;
    restored.seed = asked.seed;
    restored.train_tokens = asked.train_tokens;
    restored.seq_length = asked.seq_length;
    return restored;
}

fs::path output_of(const fs::path& checkpoint) { return checkpoint.parent_path().parent_path(); }

void check_continues(const checkpoint::State& restored, const checkpoint::State& asked,
                     const fs::path& directory) {
    if (restored.dtype != asked.dtype)
        throw RankFailure(2, "train.precision: " + asked.dtype + " cannot continue " +
                                 directory.string() + ", which is " + restored.dtype);
    if (!same_data(restored, asked))
        std::printf(
            "the seed, the corpus or train.seq_length differs from %s: training continues on "
            "other data\n",
            directory.c_str());
    for (const std::size_t file : changed_files(restored, asked))
        std::printf("warning: the content of data.train[%zu] has changed since %s was written\n",
                    file, directory.c_str());
}

OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned) {
    const plan::FlopsPerToken flops =
        plan::flops_per_token(model, spec.seq_length, frozen_factors(spec, model));
    OrderedJson head = {
        {"schema", "roll.metrics/1"},
        {"name", spec.name},
        {"steps", spec.steps},
        {"dp", spec.parallel.dp},
        {"parameters", plan::parameter_count(model)},
        {"flops_per_token_causal", flops.causal},
        {"flops_per_token_full", flops.full},
        {"peak", spec.peak_tflops > 0 ? "train.peak_tflops" : "a matrix product, measured"},
        {"train_tokens", corpus.train_tokens()},
        {"valid_tokens", corpus.valid_tokens()},
        {"time", to_iso8601(wall_clock_now())}};
    if (learned.documents == 0) return head;
    head["documents"] = learned.documents;
    head["documents_cut"] = learned.cut;
    head["documents_unlearned"] = learned.unlearned;
    return head;
}

std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus) {
    return spec.name + ": " + std::to_string(plan::parameter_count(model)) + " parameters, " +
           std::to_string(spec.steps) + " steps of " + std::to_string(spec.global_batch_size) +
           " x " + std::to_string(spec.seq_length) + " tokens, dp " +
           std::to_string(spec.parallel.dp) + ", " + name_of(spec.precision) + ", " +
           std::to_string(corpus.train_tokens()) + " training tokens and " +
           std::to_string(corpus.valid_tokens()) + " held out";
}

std::string documents_line(const data::LearnedDocuments& learned, std::int64_t seq_length) {
    return std::to_string(learned.documents) + " documents: " + std::to_string(learned.cut) +
           " cut to " + std::to_string(seq_length + 1) + " tokens, " +
           std::to_string(learned.unlearned) + " without a token to learn";
}

}  // namespace roll::train
