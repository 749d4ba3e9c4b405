#include "worker/train/training_data.hpp"

#include <chrono>
#include <cstdio>

#include <ATen/Parallel.h>

#include "worker/train/data/prepare.hpp"
#include "worker/train/failure.hpp"
#include "worker/train/launch_checks.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kProgressEvery = std::chrono::milliseconds(500);

// Token files lie beside the jobs' outputs, so that the next job finds them.
data::PrepareOptions options_of(const protocol::Launch& launch, const spec::TrainSpec& spec,
                                const tokenizer::TextTokenizer& tokenizer) {
    data::PrepareOptions options;
    options.directory = fs::path(launch.output).lexically_normal().parent_path() / "tokens";
    options.tokenizer = tokenizer.identity;
    options.rules.field = spec.data.field;
    options.rules.completions = spec.data.completions;
    options.rules.prompt_field = spec.data.prompt_field;
    options.rules.completion_field = spec.data.completion_field;
    options.rules.add_special = spec.data.add_special;
    if (spec.data.append_eos && tokenizer.eos) options.rules.end_token = *tokenizer.eos;
    options.skip_bad_lines = spec.data.skip_bad_lines;
    options.threads = at::get_num_threads() * launch.ranks_per_node;  // the other ranks wait
    return options;
}

// Tells how far it is, and hears whether to stop.
class Watch {
  public:
    Watch(WorkerLink& link, bool tells) : link_(link), tells_(tells) {}

    bool operator()(const data::PrepareProgress& progress) {
        if (link_.poll().stop) return false;
        if (!tells_ || Clock::now() < due_) return true;
        due_ = Clock::now() + kProgressEvery;
        const Json json = {
            {"phase", "tokenize"}, {"bytes", progress.done}, {"bytes_total", progress.size}};
        link_.report(protocol::Progress{json.dump()});
        return true;
    }

  private:
    WorkerLink& link_;
    bool tells_;
    Clock::time_point due_{};
};

// A file that Roll made itself, which it makes again where there is none.
data::TokenFile open_made(const fs::path& bin) {
    Result<data::TokenFile> file = data::TokenFile::open_indexed(bin);
    if (!file && file.error().code == ErrorCode::Corrupt)
        file.error().message += "; delete it and its .bin, and both are made again";
    return of_disk(std::move(file));
}

// Nothing: told to stop.
std::optional<data::TokenFile> open_tokens(const fs::path& path,
                                           const tokenizer::TextTokenizer& tokenizer,
                                           const data::PrepareOptions& options, Watch& watch,
                                           bool writes) {
    if (path.extension() == ".bin") return of_disk(data::TokenFile::open_indexed(path));
    const bool bytes = tokenizer.identity == tokenizer::bytes_tokenizer().identity;
    if (bytes && path.extension() == ".txt") return of_disk(data::TokenFile::open_bytes(path));
    const auto start = Clock::now();
    const auto prepared =
        of_disk(data::prepare(path, tokenizer.tokenizer, options, std::ref(watch)));
    if (!prepared) return std::nullopt;
    data::TokenFile file = open_made(prepared->bin);
    if (!writes) return file;
    const std::chrono::duration<double> seconds = Clock::now() - start;
    std::printf("%s: %zu documents, %zu tokens, in %.1f s; %s\n", path.c_str(), file.documents(),
                file.tokens().size(), seconds.count(), prepared->bin.c_str());
    if (prepared->bad_lines > 0)
        std::printf("%s: %llu lines left out; the .bad file beside its tokens lists them\n",
                    path.c_str(), static_cast<unsigned long long>(prepared->bad_lines));
    return file;
}

// Throws RankFailure(invalid) if there is nothing to learn.
data::LearnedDocuments learned_of(const data::Corpus& corpus, const spec::TrainSpec& spec) {
    if (!spec.data.documents_apart) return {};
    const data::LearnedDocuments counts =
        data::count_learned(corpus, {spec.seq_length, spec.data.completions});
    if (!counts.nothing()) return counts;
    const std::int64_t cut = counts.unlearned - counts.one_token;
    std::string why, next;
    if (cut > 0) {
        why = std::to_string(cut) + " without a completion within the first " +
              std::to_string(spec.seq_length + 1) + " tokens";
        next = "train.seq_length " + std::to_string(counts.longest - 1) + " cuts none";
    }
    if (counts.one_token > 0) {
        why += (why.empty() ? "" : ", ") + std::to_string(counts.one_token) +
               " of a single token (no token is predicted from another document)";
        if (next.empty()) next = "join short documents into longer ones";
    }
    throw RankFailure(2, "data.train: none of the " + std::to_string(counts.documents) +
                             " documents has a token to learn: " + why + "; " + next);
}

}  // namespace

std::optional<TrainingData> prepare_training(const protocol::Launch& launch, int rank,
                                             WorkerLink& link) {
    spec::TrainSpec spec = checked_spec(launch);
    ModelSetup model = setup_model(spec, candidates_of(launch));
    const data::PrepareOptions options = options_of(launch, spec, *model.tokenizer);
    Watch watch(link, rank == 0);
    const auto open_all = [&](const std::vector<std::string>& paths) {
        std::optional<std::vector<data::NamedTokens>> files(std::in_place);
        for (const std::string& path : paths) {
            auto file = open_tokens(path, *model.tokenizer, options, watch, rank == 0);
            if (!file) return decltype(files)();
            files->push_back({path, *std::move(file)});
        }
        return files;
    };
    auto files = open_all(spec.data.train);
    if (!files) return std::nullopt;
    const data::Cut cut = spec.data.completions ? data::Cut::BetweenDocuments : data::Cut::Anywhere;
    data::Corpus corpus =
        need(data::Corpus::make(*std::move(files), spec.data.valid_fraction, spec.seq_length, cut));
    std::vector<data::Corpus> valid;
    for (const spec::ValidFiles& set : spec.data.valid_files) {
        auto held_out = open_all(set.paths);
        if (!held_out) return std::nullopt;
        valid.push_back(need(data::Corpus::held_out(*std::move(held_out), cut)));
    }
    data::LearnedDocuments learned;
    if (rank == 0) learned = learned_of(corpus, spec);
    return TrainingData{std::move(spec), std::move(model), std::move(corpus), std::move(valid),
                        learned};
}

int tokenize_ahead(const protocol::Launch& launch, WorkerLink& link) {
    const spec::TrainSpec spec = need(spec::tokenize_spec(launch.document));
    const auto tokenizer = job_tokenizer(spec);
    const data::PrepareOptions options = options_of(launch, spec, *tokenizer);
    Watch watch(link, /*tells=*/true);
    link.report(protocol::Ready{});
    std::vector<std::string> paths = spec.data.train;
    for (const spec::ValidFiles& set : spec.data.valid_files)
        paths.insert(paths.end(), set.paths.begin(), set.paths.end());
    for (const std::string& path : paths)
        if (!open_tokens(path, *tokenizer, options, watch, /*writes=*/true))
            return protocol::kExitYielded;
    return 0;
}

}  // namespace roll::train
