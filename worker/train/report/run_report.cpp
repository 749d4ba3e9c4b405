#include "worker/train/report/run_report.hpp"

#include <cstdio>

#include "common/counted.hpp"
#include "common/spec/check/checkpoint_rules.hpp"
#include "common/time.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/model_setup.hpp"

namespace roll::train {
namespace {

// Returns a warning if some files are shorter than a window; otherwise, an empty text. Training
// does not use such files, because a window never spans two files.
std::string unused_files(const data::Corpus& corpus, std::int64_t seq_length) {
    constexpr int kNamedFiles = 3;
    if (corpus.cut() != data::Cut::Anywhere) return {};
    std::size_t files = 0, tokens = 0;
    std::string names;
    for (const data::CorpusFile& file : corpus.files()) {
        if (file.train.size() > static_cast<std::size_t>(seq_length)) continue;
        tokens += file.train.size();
        if (files++ < kNamedFiles) names += (names.empty() ? "" : ", ") + file.name;
    }
    if (files == 0) return {};
    const bool one = corpus.files().size() == 1;
    return std::to_string(files) + " of " + std::to_string(corpus.files().size()) +
           (one ? " file" : " files") + " of data.train (" + std::to_string(tokens) +
           (tokens == 1 ? " token" : " tokens") + (files == 1 ? ") is" : ") are") +
           " shorter than a sequence of " + std::to_string(seq_length) +
           (files == 1 ? " and is" : " and are") + " not used: " + names +
           (files > kNamedFiles ? ", ..." : "") +
           "; join them into one file, or make them lines of one .jsonl";
}

const char* samples_text(const spec::DataSpec& data) {
    if (data.labels) return " answers of ";
    return data.pairs ? " pairs of 2 x " : " x ";
}

std::string axes_text(const spec::ParallelSpec& p, const std::string& schedule) {
    std::string text = "dp " + std::to_string(p.dp);
    if (p.cp > 1) text += ", cp " + std::to_string(p.cp);
    if (p.zero > 0) text += ", zero " + std::to_string(p.zero);
    if (p.tp > 1) text += ", tp " + std::to_string(p.tp);
    if (p.sequence) text += " with sequence parallelism";
    if (p.pp == 1) return text;
    text += ", pp " + std::to_string(p.pp);
    if (p.vpp > 1) text += " of " + std::to_string(p.vpp) + " chunks";
    return text + ", schedule " + schedule;
}

}  // namespace

std::string epochs_text(double epochs) {
    char text[32];
    std::snprintf(text, sizeof text, epochs == 1 ? "%g epoch" : "%g epochs", epochs);
    return text;
}

OrderedJson metrics_head(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                         const data::Corpus& corpus, const data::LearnedDocuments& learned,
                         const std::string& schedule) {
    const plan::FlopsPerToken flops =
        plan::flops_per_token(model, spec.seq_length, untrained_of(spec, model));
    OrderedJson head = {
        {"schema", "roll.metrics/1"},
        {"name", spec.name},
        {"steps", spec.steps},
        {"dp", spec.parallel.dp},
        {"parameters", plan::parameter_count(model)},
        {"flops_per_token_causal", flops.causal},
        {"flops_per_token_full", flops.full},
        {"peak", spec.peak_tflops > 0 ? "train.peak_tflops" : "measured with a matrix product"},
        {"train_tokens", corpus.train_tokens()},
        {"valid_tokens", corpus.valid_tokens()},
        {"time", to_iso8601(wall_clock_now())}};
    if (spec.epochs > 0) head["epochs"] = spec.epochs;
    if (spec.parallel.tp > 1) head["tp"] = spec.parallel.tp;
    if (spec.parallel.cp > 1) head["cp"] = spec.parallel.cp;
    if (spec.parallel.pp > 1) {
        head["pp"] = spec.parallel.pp;
        head["vpp"] = spec.parallel.vpp;
        head["schedule"] = schedule;
    }
    if (learned.documents == 0) return head;
    head["documents"] = learned.documents;
    head["documents_cut"] = learned.cut;
    if (learned.dropped > 0) head["documents_dropped"] = learned.dropped;
    head["documents_unlearned"] = learned.unlearned;
    return head;
}

std::string headline(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                     const data::Corpus& corpus, const std::string& schedule) {
    return spec.name + ": " + std::to_string(plan::parameter_count(model)) + " parameters, " +
           counted(spec.steps, "step") +
           (spec.epochs > 0 ? " (" + epochs_text(spec.epochs) + ")" : "") + " of " +
           std::to_string(spec.global_batch_size) + samples_text(spec.data) +
           counted(spec.seq_length, "token") + ", " + axes_text(spec.parallel, schedule) + ", " +
           name_of(spec.precision) + ", " + counted(corpus.train_tokens(), "training token") +
           " and " + std::to_string(corpus.valid_tokens()) + " held out";
}

std::string documents_line(const data::LearnedDocuments& learned, const spec::TrainSpec& spec) {
    const char* const kind = spec.data.pairs ? "pair" : spec.data.labels ? "answer" : "document";
    return counted(learned.documents, kind) + ": " + std::to_string(learned.cut) + " cut to " +
           std::to_string(spec.seq_length + (spec.preference.compares_scores() ? 0 : 1)) +
           " tokens, " +
           (learned.dropped > 0 ? std::to_string(learned.dropped) + " longer and dropped, " : "") +
           std::to_string(learned.unlearned) + " without a token to learn";
}

std::vector<std::string> warnings_of(const spec::TrainSpec& spec, const data::Corpus& corpus,
                                     const data::LearnedDocuments& learned) {
    std::vector<std::string> warnings;
    const bool shortens = learned.cut > 0 || learned.dropped > 0;
    if (shortens || learned.unlearned > 0)
        warnings.push_back("data.train: " + documents_line(learned, spec) +
                           (shortens
                                ? "; set train.seq_length to " +
                                      std::to_string(learned.longest - 1) + " so that none is cut"
                                : ""));
    if (std::string unused = unused_files(corpus, spec.seq_length); !unused.empty())
        warnings.push_back(std::move(unused));
    const std::string steps = std::to_string(spec.steps);
    if (std::string unsaved = spec::unsaved_warning(spec); !unsaved.empty())
        warnings.push_back(std::move(unsaved));
    if (spec.checkpoint_every > spec.steps)
        warnings.push_back("checkpoint.every is " + std::to_string(spec.checkpoint_every) +
                           ": there is no checkpoint before the last step, " + steps);
    if (spec.checkpoint_keep_best && spec.valid_every == 0)
        warnings.push_back(
            "checkpoint.keep_best: the job validates only at its end; set train.valid_every to "
            "validate earlier");
    const bool none = spec.data.valid_fraction == 0 && spec.data.valid_files.empty();
    if (none && (spec.valid_every > 0 || spec.valid_at_start))
        warnings.push_back("data.valid holds out no tokens, so there are no validations");
    return warnings;
}

}  // namespace roll::train
