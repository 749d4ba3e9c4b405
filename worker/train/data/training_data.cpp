#include "worker/train/data/training_data.hpp"

#include <chrono>
#include <cstdio>

#include <ATen/Parallel.h>

#include "common/counted.hpp"
#include "common/files.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/train/data/corpus/parquet.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/epochs.hpp"
#include "worker/train/data/sample_order.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/process/launch.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kProgressEvery = std::chrono::milliseconds(500);

// Returns the options for making token files. The files are stored next to the jobs' outputs, so
// that the next job finds them.
data::PrepareOptions options_of(const protocol::Launch& launch, const spec::TrainSpec& spec,
                                const tokenizer::TextTokenizer& tokenizer,
                                const std::vector<fs::path>& checkpoints) {
    data::PrepareOptions options = text_options(spec, tokenizer, checkpoints);
    options.directory = fs::path(launch.output).lexically_normal().parent_path() / "tokens";
    // use all threads of the node, because the node's other ranks only wait
    options.threads = at::get_num_threads() * launch.ranks_per_node;
    return options;
}

// Called during tokenization. Reports progress, and returns false if a request to stop has arrived.
class Watch {
  public:
    Watch(WorkerLink& link, bool tells) : link_(link), tells_(tells) {}

    bool operator()(const data::PrepareProgress& progress) {
        if (link_.is_stopped()) return false;
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

// Opens a token file that Roll has made. If the file is damaged, the error says that the file can
// be deleted, and that Roll then makes a new file.
data::TokenFile open_made(const fs::path& bin) {
    Result<data::TokenFile> file = data::TokenFile::open_indexed(bin);
    if (!file && file.error().code == ErrorCode::Corrupt)
        file.error().message += "; delete this file and its .bin, and Roll creates both again";
    return of_disk(std::move(file));
}

std::span<const std::byte> bytes_of(const data::TokenFile& file) {
    const data::Tokens tokens = file.tokens();
    return {tokens.data(), tokens.size() * size_of(tokens.type())};
}

// An open data file, and its entry in checkpoint::State::data.
struct Opened {
    data::TokenFile file;
    std::string identity;
};

// Opens the data files of one rank.
struct Opener {
    const tokenizer::TextTokenizer& tokenizer;
    const data::PrepareOptions& options;
    Watch& watch;
    bool writes;  // true: this rank logs messages about the files
    bool verify;  // true: this rank reads each file completely to verify it

    // Opens a file, and tokenizes it first if necessary. Returns nullopt if told to stop.
    std::optional<Opened> open(const fs::path& path) const;

  private:
    std::optional<Opened> open_as_it_is(const fs::path& path, bool bytes) const;
    bool verify_made(const fs::path& path, const data::Prepared& prepared) const;
    void tell(const fs::path& path, const data::Prepared& prepared, const data::TokenFile& file,
              double seconds) const;
};

std::optional<Opened> Opener::open_as_it_is(const fs::path& path, bool bytes) const {
    data::TokenFile file =
        of_disk(bytes ? data::TokenFile::open_bytes(path) : data::TokenFile::open_indexed(path));
    if (!writes) return Opened{std::move(file), ""};
    std::string identity = data::sample_hash(bytes_of(file));
    if (verify) {
        const auto hash = data::whole_hash(bytes_of(file), std::ref(watch));
        if (!hash) return std::nullopt;
        identity += " " + *hash;
    }
    return Opened{std::move(file), std::move(identity)};
}

// Verifies that a token file was made from its text. Throws RankFailure if the text differs.
// Returns false only if a request to stop came before the end.
bool Opener::verify_made(const fs::path& path, const data::Prepared& prepared) const {
    if (prepared.source_is_gone) return true;
    if (prepared.record.text_hash.empty()) {
        std::printf(
            "%s: not verified: an earlier version of Roll created the tokens without a hash of the "
            "text\n",
            path.c_str());
        return true;
    }
    const auto same = of_disk(
        data::verify_text(path, tokenizer.tokenizer, options, prepared.record, std::ref(watch)));
    if (same && !*same)
        throw RankFailure(2, "data.verify: " + path.string() + " is not the text from which " +
                                 prepared.bin.string() +
                                 " was made, although its size and modification time are the same; "
                                 "delete the .bin and its .idx to make them again");
    return same.has_value();
}

void Opener::tell(const fs::path& path, const data::Prepared& prepared, const data::TokenFile& file,
                  double seconds) const {
    if (prepared.source_is_gone)
        std::printf("%s no longer exists; the job uses the tokens that were made from this file\n",
                    path.c_str());
    if (prepared.was_stale)
        std::printf(
            "the content of %s has changed, although the file has the same size and modification "
            "time; the text is tokenized again\n",
            path.c_str());
    std::printf("%s: %zu document%s, %zu token%s, in %.1f s; %s\n", path.c_str(), file.documents(),
                file.documents() == 1 ? "" : "s", file.tokens().size(),
                file.tokens().size() == 1 ? "" : "s", seconds, prepared.bin.c_str());
    if (prepared.form)
        std::printf("%s: conversations in the form %s, with the template of %s\n", path.c_str(),
                    chat::name_of(*prepared.form), options.rules.chat->path.c_str());
    if (prepared.bad_lines > 0)
        std::printf("%s: %llu bad line%s skipped; the .bad file next to its tokens lists them\n",
                    path.c_str(), static_cast<unsigned long long>(prepared.bad_lines),
                    prepared.bad_lines == 1 ? "" : "s");
}

std::optional<Opened> Opener::open(const fs::path& path) const {
    if (data::is_parquet(path)) {
        const auto lines =
            of_disk(data::lines_of_parquet(path, options.directory, std::ref(watch)));
        return lines ? open(*lines) : std::nullopt;
    }
    if (path.extension() == ".bin") return open_as_it_is(path, /*bytes=*/false);
    const bool bytes = tokenizer.identity == tokenizer::bytes_tokenizer().identity;
    if (bytes && path.extension() == ".txt") return open_as_it_is(path, /*bytes=*/true);
    const auto start = Clock::now();
    const auto prepared =
        of_disk(data::prepare(path, tokenizer.tokenizer, options, std::ref(watch)));
    if (!prepared) return std::nullopt;
    data::TokenFile file = open_made(prepared->bin);
    const bool all = verify && writes;
    if (!of_disk(data::check_tokens(prepared->bin, bytes_of(file), prepared->record, all,
                                    std::ref(watch))))
        return std::nullopt;
    if (all && !verify_made(path, *prepared)) return std::nullopt;
    const std::chrono::duration<double> seconds = Clock::now() - start;
    if (writes) tell(path, *prepared, file, seconds.count());
    return Opened{std::move(file), prepared->record.samples + " " + prepared->record.hash};
}

// Adds hints for finding token files: the whole-file hashes in the newest readable checkpoint, and
// the token directories next to the jobs that wrote the checkpoints.
void add_known(data::PrepareOptions& options, const std::vector<fs::path>& checkpoints) {
    for (const fs::path& checkpoint : checkpoints) {
        options.elsewhere.push_back(output_of(checkpoint).parent_path() / "tokens");
        const auto text = read_file(checkpoint / checkpoint::kStateFile);
        const auto state = text ? checkpoint::decode_state(*text) : tl::unexpected(text.error());
        if (!state || !options.hashes.empty()) continue;
        for (const std::string& file : state->data)
            options.hashes.push_back(file.substr(std::min(file.find(' '), file.size() - 1) + 1));
    }
    std::erase(options.elsewhere, options.directory);
}

// Returns the train.seq_length at which no document is too long.
std::string length_for(const data::LearnedDocuments& counts, const data::RowRules& rows) {
    return std::to_string(counts.longest - (rows.scores ? 0 : 1));
}

// Throws RankFailure(invalid) if data.truncate is `error` and a document is too long.
void check_lengths(const data::Corpus& corpus, const spec::TrainSpec& spec) {
    if (spec.data.truncate != spec::Truncation::Error) return;
    const auto found = data::find_long(corpus, row_rules(spec));
    if (!found) return;
    throw RankFailure(
        2, found->file + ": " +
               (spec.data.pairs    ? "an answer of pair "
                : spec.data.labels ? "answer "
                                   : "document ") +
               std::to_string(found->number) + " has " + std::to_string(found->tokens) +
               " tokens; allowed with data.truncate error: at most " +
               std::to_string(row_rules(spec).most()) +
               "; set train.seq_length to a larger number, or data.truncate to another rule");
}

// Counts the documents that do not contribute to the loss. Throws RankFailure(invalid) if no
// document contributes. Returns zeros without counting if spec.data has neither documents_apart nor
// completions.
data::LearnedDocuments learned_of(const data::Corpus& corpus, const spec::TrainSpec& spec) {
    if (!spec.data.documents_apart && !spec.data.completions) return {};
    const data::RowRules rows = row_rules(spec);
    const data::LearnedDocuments counts =
        data::count_learned(corpus, {rows, spec.data.completions, spec.data.documents_apart});
    if (!counts.nothing()) return counts;
    const std::int64_t cut = counts.unlearned - counts.one_token;
    const char* const part = rows.truncate == data::Truncate::Start ? "last " : "first ";
    std::string why, next;
    if (counts.dropped > 0)
        why = std::to_string(counts.dropped) + " dropped, because they are longer than " +
              std::to_string(rows.most()) + " tokens";
    if (cut > 0)
        why += (why.empty() ? "" : ", ") + std::to_string(cut) + " with no completion in " +
               "the " + part + std::to_string(rows.most()) + " tokens";
    if (cut > 0 || counts.dropped > 0)
        next = "set train.seq_length to " + length_for(counts, rows) + " so that none is cut";
    if (counts.one_token > 0) {
        why += (why.empty() ? "" : ", ") + std::to_string(counts.one_token) +
               " with a single token (the first token of a document is never predicted)";
        if (next.empty()) next = "join short documents into longer ones";
    }
    const std::string which = spec.data.pairs ? "pair" : spec.data.labels ? "answer" : "document";
    throw RankFailure(2, "data.train: of " + counted(counts.documents, which) + ", none has " +
                             (spec.data.pairs ? "two answers with " : "") +
                             "a token to learn: " + why + "; " + next);
}

}  // namespace

std::optional<TrainingData> prepare_training(const protocol::Launch& launch, int rank,
                                             WorkerLink& link) {
    spec::TrainSpec spec = checked_spec(launch);
    std::vector<Task> tasks;
    for (const std::string& file : spec.evaluation.tasks) tasks.push_back(need(read_task(file)));
    ModelSetup model = setup_model(spec, candidates_of(launch));
    data::PrepareOptions options =
        options_of(launch, spec, *model.tokenizer, candidates_of(launch));
    add_known(options, candidates_of(launch));
    Watch watch(link, rank == 0);
    const Opener opener{*model.tokenizer, options, watch, rank == 0, spec.data.verify};
    std::vector<std::string> identity;
    const auto open_all = [&](const std::vector<std::string>& paths) {
        std::optional<std::vector<data::NamedTokens>> files(std::in_place);
        for (const std::string& path : paths) {
            auto opened = opener.open(path);
            if (!opened) return decltype(files)();
            files->push_back({path, std::move(opened->file)});
            identity.push_back(std::move(opened->identity));
        }
        return files;
    };
    auto files = open_all(spec.data.train);
    const std::vector<std::string> trained = rank == 0 ? identity : std::vector<std::string>();
    if (!files) return std::nullopt;
    const data::Cut cut = cut_of(spec.data);
    data::Corpus corpus = training_corpus(*std::move(files), spec);
    std::vector<data::Corpus> valid;
    for (const spec::ValidFiles& set : spec.data.valid_files) {
        auto held_out = open_all(set.paths);
        if (!held_out) return std::nullopt;
        valid.push_back(need(data::Corpus::held_out(*std::move(held_out), cut)));
        if (rank == 0) check_lengths(valid.back(), spec);
    }
    data::LearnedDocuments learned;
    if (rank == 0) {
        check_lengths(corpus, spec);
        learned = learned_of(corpus, spec);
    }
    if (spec.epochs > 0) set_steps_of_epochs(spec, corpus, {});
    return TrainingData{std::move(spec),     std::move(model),  std::move(corpus),
                        std::move(valid),    learned,           trained,
                        std::move(identity), options.directory, std::move(tasks)};
}

int tokenize_ahead(const protocol::Launch& launch, WorkerLink& link) {
    const spec::TrainSpec spec = need(spec::tokenize_spec(launch.document));
    const auto tokenizer = job_tokenizer(spec);
    const data::PrepareOptions options = options_of(launch, spec, *tokenizer, {});
    Watch watch(link, /*tells=*/true);
    link.report(protocol::Ready{});
    std::vector<std::string> paths = spec.data.train;
    for (const spec::ValidFiles& set : spec.data.valid_files)
        paths.insert(paths.end(), set.paths.begin(), set.paths.end());
    const Opener opener{*tokenizer, options, watch, /*writes=*/true, spec.data.verify};
    for (const std::string& path : paths)
        if (!opener.open(path)) return protocol::kExitYielded;
    return 0;
}

}  // namespace roll::train
