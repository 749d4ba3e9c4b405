// A train job in full: what roll-rank and `rollctl plan` read from JobSpec::document.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

enum class Objective { Pretrain, Sft };     // dpo, orpo are refused by name until they are built
enum class Precision { Fp32, Fp64, Bf16 };  // fp16 and fp8 likewise
enum class Normalize { Step, Microbatch };  // design: loss
enum class LrSchedule { Constant, Linear, Cosine, InverseSquareRoot, Wsd };
enum class WsdDecay { Linear, Cosine, Exponential, MinusSqrt };
enum class WeightDecaySchedule { Constant, Linear, Cosine };
enum class OnNotFinite { Stop, Skip, Retry, Rewind };
enum class ExportFormat { None, Hf };
enum class ExportDtype { Fp32, Bf16, Fp16 };

struct ModelSource {
    std::string family;     // a file of schemas/families
    std::string hf_config;  // JSON object: the sizes by HuggingFace's config names; with `from`,
                            // the dropouts that replace the model's own
    std::string from;       // absolute path of a checkpoint; then there are no sizes, and no family
    std::int64_t vocab = 0;           // with `from`: rows of the embedding if not the model's own
    std::vector<std::string> freeze;  // globs of native parameter names
};

// Files held out as a whole.
struct ValidFiles {
    std::string name;
    std::vector<std::string> paths;  // absolute, as of DataSpec::train
};

// How often a set is validated besides at the end: in steps, or in trained tokens. 0: never.
struct Interval {
    std::int64_t steps = 0, tokens = 0;
};

struct DataSpec {
    std::vector<std::string> train;  // absolute paths of .txt, .jsonl and .bin files
    double valid_fraction = 0.01;    // the tail of each file, in tokens, held out
    std::string valid_name;          // of these tails, where there are other sets
    std::vector<ValidFiles> valid_files;
    std::string track;  // the set whose loss decides what is best; there is one of this name
    // Of a .jsonl line's object: its text or, where completions are learned, these two.
    std::string field = "text", prompt_field = "prompt", completion_field = "completion";
    bool completions = false;      // objective sft
    bool skip_bad_lines = false;   // else the first one ends the job
    bool add_special = true;       // what the tokenizer puts around a text
    bool documents_apart = false;  // no attention across documents that share a sequence
    bool append_eos = true;        // to documents that do not end with it
    bool verify = false;           // read all of each file before training, not samples
};

// Axes of the mesh; dp is derived from the world size when the file leaves it out.
struct ParallelSpec {
    int dp = 1, tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1;
};

// plan/lr_schedule.hpp says what the rates are.
struct OptimizerSpec {
    double lr = 1e-3;
    double init_lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    std::int64_t decay_steps = 0;  // 0: as many as train.steps
    LrSchedule schedule = LrSchedule::Cosine;
    std::int64_t wsd_decay_steps = 0;  // of decay_steps, the last; wsd only
    WsdDecay wsd_decay = WsdDecay::Exponential;
    double weight_decay = 0.1;
    double weight_decay_end = 0.1;  // after train.steps; the same unless it has a schedule
    WeightDecaySchedule weight_decay_schedule = WeightDecaySchedule::Constant;
    double clip_grad = 1.0;  // 0: no clipping
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    // Whether parameters with such names decay, the first match counting; others: with 2 dimensions
    std::vector<std::pair<std::string, bool>> decays;
};

struct SampleSpec {
    std::int64_t every = 0;  // steps; 0: never
    std::vector<std::string> prompts;
    std::int64_t max_tokens = 64;
};

struct MetricsSpec {
    bool csv = false;  // besides metrics.jsonl
    bool tensorboard = false;
    bool grad_zeros = false;  // count them: one more pass over the gradient
};

// Training ends when `patience` validations in a row were no better than the best by min_delta.
struct EarlyStopSpec {
    std::int64_t patience = 0;  // 0: never
    double min_delta = 0;       // nats a token
};

struct TrainSpec {
    std::string name;
    ModelSource model;
    std::string tokenizer = "bytes";  // or the absolute path of a directory with tokenizer.json
    DataSpec data;
    Objective objective = Objective::Pretrain;
    ParallelSpec parallel;
    std::int64_t seq_length = 0;         // tokens
    std::int64_t global_batch_size = 0;  // sequences a step
    std::int64_t micro_batch_size = 0;   // sequences a micro-batch
    std::int64_t steps = 0;
    std::uint64_t seed = 1;
    std::int64_t valid_every = 0;                     // steps; 0: at the end only
    std::map<std::string, Interval> valid_intervals;  // of single sets; of the others, valid_every
    bool valid_at_start = false;  // once before the first step, too: what training begins from
    bool deterministic = false;   // nothing whose result may differ between two runs
    OptimizerSpec optimizer;
    Precision precision = Precision::Fp32;
    Normalize normalize = Normalize::Step;
    SampleSpec sample;
    MetricsSpec metrics;
    EarlyStopSpec early_stop;
    double peak_tflops = 0;  // of one rank; 0: that of a matrix product, measured
    OnNotFinite on_not_finite = OnNotFinite::Stop;
    std::int64_t checkpoint_every = 0;  // steps; 0: at the end only
    std::int64_t checkpoint_keep = 2;
    std::int64_t checkpoint_keep_every = 0;      // besides those, of steps that it divides; 0: none
    std::int64_t checkpoint_keep_optimizer = 0;  // the newest that keep optimizer state; 0: all
    bool checkpoint_keep_best = false;   // besides those, the one of the lowest validation loss
    bool checkpoint_first_step = false;  // one after the first step, which is read back
    std::chrono::seconds checkpoint_wait_for_space{600};  // of the last one, on a full disk
    ExportFormat export_format = ExportFormat::Hf;
    ExportDtype export_dtype = ExportDtype::Bf16;
    bool export_best = false;  // the checkpoint of the lowest validation loss, not the last

    // Micro-batches of one data-parallel rank in a step.
    std::int64_t microbatches() const { return global_batch_size / micro_batch_size / parallel.dp; }
};

// Reads a document that parse_job accepted. A convert document is refused.
Result<TrainSpec> train_spec(std::string_view document);
// Likewise what a tokenize job needs of it: model.from, tokenizer and data; the rest by default.
Result<TrainSpec> tokenize_spec(std::string_view document);

}  // namespace roll::spec
