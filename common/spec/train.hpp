// The specification of a train job, which roll-rank and `rollctl plan` read from JobSpec::document.
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

enum class Objective { Pretrain, Sft };     // dpo and orpo are not implemented yet
enum class Precision { Fp32, Fp64, Bf16 };  // fp16 and fp8 are not implemented yet
enum class Normalize { Step, Microbatch };  // the loss is a mean over a step or a micro-batch
enum class LrSchedule { Constant, Linear, Cosine, InverseSquareRoot, Wsd };
enum class WsdDecay { Linear, Cosine, Exponential, MinusSqrt };
enum class WeightDecaySchedule { Constant, Linear, Cosine };
enum class OnNotFinite { Stop, Skip, Retry, Rewind };
enum class ExportFormat { None, Hf };
enum class ExportDtype { Fp32, Bf16, Fp16 };

struct ModelSource {
    std::string family;      // name of a file in schemas/families; empty with `from`
    std::string hf_config;   // JSON object with HuggingFace's config keys: the sizes; with `from`,
                             // only dropouts that override the model's
    std::string from;        // absolute path of a checkpoint; empty if the sizes are given
    std::int64_t vocab = 0;  // with `from`: rows of the embedding; 0 keeps the model's
    std::vector<std::string> freeze;  // globs of native parameter names
};

// A validation set of whole files.
struct ValidFiles {
    std::string name;
    std::vector<std::string> paths;  // absolute, of the same types as DataSpec::train
};

// How often a set is validated during training, in steps or trained tokens; 0 means never.
struct Interval {
    std::int64_t steps = 0, tokens = 0;
};

struct DataSpec {
    std::vector<std::string> train;  // absolute paths of .txt, .jsonl and .bin files
    double valid_fraction = 0.01;    // share of tokens at each file's end to hold out
    std::string valid_name;          // name of the set of these tails, if there are other sets
    std::vector<ValidFiles> valid_files;
    std::string track;  // name of the set whose loss decides which checkpoint is best
    // Fields of a .jsonl line: `field` for texts, the other two if `completions`.
    std::string field = "text", prompt_field = "prompt", completion_field = "completion";
    bool completions = false;      // objective sft
    bool skip_bad_lines = false;   // otherwise the first bad line fails the job
    bool add_special = true;       // add the tokenizer's special tokens around each text
    bool documents_apart = false;  // no attention across documents in the same sequence
    bool append_eos = true;        // append EOS to documents that do not end with it
    bool verify = false;           // read each file whole before training, instead of samples
};

// Axes of the mesh. If the file has no dp, it is derived from the world size.
struct ParallelSpec {
    int dp = 1, tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1;
};

// plan/lr_schedule.hpp defines the schedules.
struct OptimizerSpec {
    double lr = 1e-3;
    double init_lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    std::int64_t decay_steps = 0;  // 0 means train.steps
    LrSchedule schedule = LrSchedule::Cosine;
    std::int64_t wsd_decay_steps = 0;  // wsd only: number of steps at the end of decay_steps
    WsdDecay wsd_decay = WsdDecay::Exponential;
    double weight_decay = 0.1;
    double weight_decay_end = 0.1;  // value at train.steps; differs only with a schedule
    WeightDecaySchedule weight_decay_schedule = WeightDecaySchedule::Constant;
    double clip_grad = 1.0;  // 0 turns clipping off
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    // Name pattern, whether it decays; first match counts. Others decay if they have 2 dimensions.
    std::vector<std::pair<std::string, bool>> decays;
};

struct SampleSpec {
    std::int64_t every = 0;  // steps; 0 means never
    std::vector<std::string> prompts;
    std::int64_t max_tokens = 64;
};

struct MetricsSpec {
    bool csv = false;  // in addition to metrics.jsonl
    bool tensorboard = false;
    bool grad_zeros = false;  // count zeros, which takes one more pass over the gradient
};

// Training stops after `patience` validations in a row that did not beat the best by `min_delta`.
struct EarlyStopSpec {
    std::int64_t patience = 0;  // validations in a row; 0 means never
    double min_delta = 0;       // nats per token
};

struct TrainSpec {
    std::string name;
    ModelSource model;
    std::string tokenizer = "bytes";  // or the absolute path of a directory with tokenizer.json
    DataSpec data;
    Objective objective = Objective::Pretrain;
    ParallelSpec parallel;
    std::int64_t seq_length = 0;         // tokens
    std::int64_t global_batch_size = 0;  // sequences per step
    std::int64_t micro_batch_size = 0;   // sequences per micro-batch
    std::int64_t steps = 0;
    std::uint64_t seed = 1;
    std::int64_t valid_every = 0;                     // steps; 0 means only at the end
    std::map<std::string, Interval> valid_intervals;  // per set; other sets use valid_every
    bool valid_at_start = false;                      // also validate before the first step
    bool deterministic = false;  // use only operations with reproducible results
    OptimizerSpec optimizer;
    Precision precision = Precision::Fp32;
    Normalize normalize = Normalize::Step;
    SampleSpec sample;
    MetricsSpec metrics;
    EarlyStopSpec early_stop;
    double peak_tflops = 0;  // peak of one rank; 0 means measure a matrix product
    OnNotFinite on_not_finite = OnNotFinite::Stop;
    std::int64_t checkpoint_every = 0;  // steps; 0 means only at the end
    std::int64_t checkpoint_keep = 2;
    std::int64_t checkpoint_keep_every = 0;  // also keep steps that are multiples of this; 0 = none
    std::int64_t checkpoint_keep_optimizer = 0;  // newest N that keep optimizer state; 0 means all
    bool checkpoint_keep_best = false;   // also keep the checkpoint of the lowest validation loss
    bool checkpoint_first_step = false;  // save after the first step and read it back, as a test
    std::chrono::seconds checkpoint_wait_for_space{600};  // last checkpoint's wait on a full disk
    ExportFormat export_format = ExportFormat::Hf;
    ExportDtype export_dtype = ExportDtype::Bf16;
    bool export_best = false;  // export the checkpoint of the lowest validation loss, not the last

    // Returns the number of micro-batches of one data-parallel rank per step.
    std::int64_t microbatches() const { return global_batch_size / micro_batch_size / parallel.dp; }
};

// Reads a document that parse_job() accepted. Fails unless its kind is train or resume.
Result<TrainSpec> train_spec(std::string_view document);
// Reads the part of a document that a tokenize job needs: model.from, tokenizer and data.
Result<TrainSpec> tokenize_spec(std::string_view document);

}  // namespace roll::spec
