#include "worker/train/job/evaluate_model.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>

#include <ATen/ATen.h>
#include <unistd.h>

#include "worker/train/data/batches.hpp"
#include "worker/train/data/choices.hpp"
#include "worker/train/data/scratch_tokens.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/model/load_weights.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// maximum number of inputs per window, if the user gives no length
constexpr std::int64_t kPositionsMost = 2048;
constexpr std::int64_t kBatchTokens = 4096;

ModelSetup setup_of(const std::string& directory) {
    ModelSetup setup = setup_model(directory);
    if (setup.config.scores)
        throw RankFailure(2, directory +
                                 " is a reward model, which has no output layer; name a "
                                 "model that writes text");
    if (!setup.tokenizer)
        throw RankFailure(2,
                          directory + " has no tokenizer.json; copy the model's tokenizer into it");
    return setup;
}

// Reports on stderr how much of a task or text has been measured. On a terminal, overwrites one
// line. Elsewhere, writes a new line at intervals.
class Progress {
  public:
    Progress(std::string name, const char* unit) : name_(std::move(name)), unit_(unit) {}
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress() {
        if (on_terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
    }

    void tell(std::int64_t done, std::int64_t all) {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_) return;
        next_ = now + (on_terminal_ ? kOnTerminal : kElsewhere);
        shown_ = true;
        std::fprintf(stderr, "%s%s: %lld of %lld %s%s", on_terminal_ ? "\r" : "", name_.c_str(),
                     static_cast<long long>(done), static_cast<long long>(all), unit_,
                     on_terminal_ ? "\x1b[K" : "\n");
    }

  private:
    static constexpr std::chrono::milliseconds kOnTerminal{200}, kElsewhere{10'000};

    std::string name_;
    const char* unit_;
    bool on_terminal_ = ::isatty(STDERR_FILENO) == 1;
    bool shown_ = false;
    std::chrono::steady_clock::time_point next_ =
        std::chrono::steady_clock::now() + (on_terminal_ ? kOnTerminal * 0 : kElsewhere);
};

// A model of one chunk, with its tokenizer.
struct Loaded {
    explicit Loaded(const EvaluationOptions& options)
        : setup(setup_of(options.directory)),
          chunk(setup.config, whole_chunk(setup.config), {.draw = false, .gradients = false}) {
        const auto positions = setup.hf_config.value("max_position_embeddings", kPositionsMost);
        length = options.seq_length > 0 ? options.seq_length : std::min(positions, kPositionsMost);
        if (length > positions)
            throw RankFailure(2, "--seq-length is " + std::to_string(length) +
                                     "; allowed for this model: at most " +
                                     std::to_string(positions));
        load_weights(options.directory, chunk.parameters());
    }
    ModelSetup setup;
    Chunk chunk;
    std::int64_t length = 0;  // number of inputs per window
};

OrderedJson measure_text(const std::string& path, const EvaluationOptions& options, Loaded& model) {
    const Scratch scratch;
    const tokenizer::TextTokenizer& tokenizer = *model.setup.tokenizer;
    spec::TrainSpec spec;
    spec.data.field = options.field;
    spec.seq_length = model.length;
    spec.micro_batch_size = 1;
    data::PrepareOptions rules = text_options(spec, tokenizer, {});
    rules.directory = scratch.path;
    std::vector<data::NamedTokens> files;
    files.push_back({path, open_tokens(path, tokenizer, rules)});
    const data::Corpus corpus = need(data::Corpus::held_out(std::move(files)));
    const std::vector<data::Window> windows = data::valid_windows(corpus, row_rules(spec));
    double loss = 0;
    std::int64_t tokens = 0, done = 0;
    Progress progress(path, "windows");
    for (const data::Window& window : windows) {
        progress.tell(done++, std::ssize(windows));
        const BatchRules batch{.vocab = model.setup.config.vocab};
        for (const Microbatch& one : valid_batches({&window, 1}, spec, batch, 0)) {
            const c10::InferenceMode no_autograd;
            loss += model.chunk.evaluate(one, {}).item<double>();
            tokens += one.targets_BT.ne(ops::kIgnored).sum().item<std::int64_t>();
        }
    }
    if (tokens == 0)
        throw RankFailure(2, path + " has no token to predict; give a file with more text");
    const std::int64_t bytes = predicted_bytes(windows, tokenizer.tokenizer);
    const double mean = loss / static_cast<double>(tokens);
    OrderedJson json = {{"loss", mean}, {"perplexity", std::exp(mean)}, {"tokens", tokens}};
    if (bytes > 0) json["bits_per_byte"] = loss / std::numbers::ln2 / static_cast<double>(bytes);
    return json;
}

}  // namespace

OrderedJson evaluate_model(const EvaluationOptions& options) {
    if (options.tasks.empty() && options.texts.empty())
        throw RankFailure(2, "nothing to measure; give --task FILE or --data FILE");
    // Read the tasks before the model is loaded, so that an error in a task is reported immediately
    std::vector<Task> tasks;
    for (const std::string& file : options.tasks)
        tasks.push_back(need(read_task(file, options.fewshot)));
    Loaded model(options);
    AnswerPass pass{.vocab = model.setup.config.vocab,
                    .length_most = model.length,
                    .batch_tokens = kBatchTokens};
    pass.log_probs = [&](std::span<const Microbatch> batch) {
        const c10::InferenceMode no_autograd;
        std::vector<at::Tensor> rows;
        for (const Microbatch& one : batch) rows.push_back(model.chunk.log_probs(one, {}));
        std::int64_t most = 0;
        for (const at::Tensor& row : rows) most = std::max(most, row.numel());
        const at::Tensor all = at::zeros({std::ssize(rows), most}, at::kDouble);
        for (std::size_t i = 0; i < rows.size(); ++i)
            all[static_cast<std::int64_t>(i)].narrow(0, 0, rows[i].numel()).copy_(rows[i]);
        return all;
    };
    std::vector<TaskScore> scores;
    for (const Task& task : tasks) {
        Progress progress(task.name, "choices");
        pass.progress = [&](std::int64_t done, std::int64_t all) { progress.tell(done, all); };
        scores.push_back(*score_task(task, *model.setup.tokenizer, pass));
    }
    OrderedJson json = {{"schema", "roll.eval/1"},
                        {"model", options.directory},
                        {"tasks", scores_json(scores, options.log_probs)}};
    OrderedJson& texts = json["data"] = OrderedJson::object();
    for (const std::string& path : options.texts) texts[path] = measure_text(path, options, model);
    return json;
}

std::string evaluation_text(const OrderedJson& json) {
    const auto of = [](const OrderedJson& object, const char* key) {
        return object[key].get<double>();
    };
    std::string text;
    char line[256];
    for (const auto& [name, score] : json["tasks"].items()) {
        std::snprintf(line, sizeof line,
                      ": %lld question%s, acc %.4f ± %.4f, acc_norm %.4f ± %.4f\n",
                      score["questions"].get<long long>(), score["questions"] == 1 ? "" : "s",
                      of(score, "acc"), of(score, "acc_stderr"), of(score, "acc_norm"),
                      of(score, "acc_norm_stderr"));
        text += name + line;
    }
    for (const auto& [path, one] : json["data"].items()) {
        std::snprintf(line, sizeof line, ": loss %.4f, perplexity %.4g", of(one, "loss"),
                      of(one, "perplexity"));
        text += path + line;
        if (one.contains("bits_per_byte")) {
            std::snprintf(line, sizeof line, ", %.4f bits per byte", of(one, "bits_per_byte"));
            text += line;
        }
        text += ", " + std::to_string(one["tokens"].get<std::int64_t>()) +
                (one["tokens"] == 1 ? " token\n" : " tokens\n");
    }
    return text;
}

}  // namespace roll::train
