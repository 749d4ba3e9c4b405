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
#include "common/spec/train/bad_steps.hpp"
#include "common/spec/train/batch_size.hpp"
#include "common/spec/train/data.hpp"
#include "common/spec/train/evaluation.hpp"
#include "common/spec/train/faults.hpp"
#include "common/spec/train/lora.hpp"
#include "common/spec/train/loss_scale.hpp"
#include "common/spec/train/optimizer.hpp"
#include "common/spec/train/parallel.hpp"
#include "common/spec/train/preference.hpp"
#include "common/spec/train/token_loss.hpp"

namespace roll::spec {

enum class Objective { Pretrain, Sft, Preference };
enum class Precision { Fp32, Fp64, Bf16, Fp16 };  // fp8 is refused
// The loss is a mean over all tokens of a step, or a mean of the micro-batches' means.
enum class Normalize { Step, Microbatch };
enum class CheckpointFormat { Mca, TorchDist };
enum class ExportFormat { None, Hf };
enum class ExportDtype { Fp32, Bf16, Fp16 };

struct ModelSource {
    std::string family;  // name of a file in schemas/families; empty if `from` is set
    // JSON object with keys of a HuggingFace config: the model's sizes, or only dropouts if `from`
    // is set
    std::string hf_config;
    std::string from;  // absolute path of a checkpoint; empty if the sizes are given
    // number of rows of the embedding, if it must differ from the model `from`; 0: no change
    std::int64_t vocab = 0;
    std::vector<std::string> freeze;  // globs of the native names of frozen parameters
    // absolute paths of the LoRA adapters that are merged into the weights of `from`, in order
    std::vector<std::string> adapters = {};
    // true: the job also continues the optimizer's state and the step count of `from`
    bool optimizer = false;
};

// The interval between validations of a set during training, in steps or in trained tokens; 0:
// never.
struct Interval {
    std::int64_t steps = 0, tokens = 0;
};

struct MetricsSpec {
    bool csv = false;  // also write the metrics as CSV, next to metrics.jsonl
    bool tensorboard = false;
    bool grad_zeros = false;       // report how many gradients are zero, which takes one more pass
    std::int64_t norms_every = 0;  // interval in steps of the norms of each layer; 0: none
};

struct TrainSpec {
    std::string name;
    ModelSource model;
    std::string tokenizer = "bytes";  // "bytes", or directory with tokenizer.json
    DataSpec data;
    Objective objective = Objective::Pretrain;
    PreferenceSpec preference;  // options for Objective::Preference
    TokenLossSpec loss;         // options for the other objectives
    // The teacher of objective distill. In all other respects, the job is as with objective
    // pretrain or sft.
    TeacherSpec teacher;
    ParallelSpec parallel;
    std::int64_t seq_length = 0;  // tokens per sequence
    // Samples per step and per micro-batch. A sample is one sequence. With `data.pairs`, a sample
    // is a pair of sequences.
    std::int64_t global_batch_size = 0;
    std::int64_t micro_batch_size = 0;
    // Batch sizes that depend on the number of trained tokens, in ascending order of that number.
    // Empty: every step uses global_batch_size. Otherwise, global_batch_size is first the largest
    // batch size. The trainer later sets global_batch_size to the batch size of the current step.
    std::vector<BatchPhase> batch_phases;
    // Distribute the samples of a step over replicas and micro-batches so that all micro-batches
    // and replicas take about the same time.
    bool balance = false;
    // maximum bytes of a micro-batch's activations; a larger micro-batch is split; 0: no limit
    std::int64_t microbatch_limit = 0;
    std::int64_t steps = 0;  // number of steps; 0 until it is computed from `epochs`
    double epochs = 0;       // passes over the training data; 0: `steps` is given
    std::uint64_t seed = 1;
    std::int64_t valid_every = 0;  // interval in steps; 0: only at the end
    // maps the name of a validation set to its interval; other sets use valid_every
    std::map<std::string, Interval> valid_intervals;
    bool valid_at_start = false;        // also validate before the first step
    bool deterministic = false;         // use only operations with reproducible results
    bool offloads_activations = false;  // saved activations are outside the device's memory
    OptimizerSpec optimizer;
    LoraSpec lora;  // empty: all weights are trained
    Precision precision = Precision::Fp32;
    LossScaleSpec loss_scale;  // used with Precision::Fp16
    Normalize normalize = Normalize::Step;
    SampleSpec sample;
    MetricsSpec metrics;
    EarlyStopSpec early_stop;
    MetricSpec best;  // decides which checkpoint is the best one
    EvaluationSpec evaluation;
    double peak_tflops = 0;  // peak TFLOP/s of a rank, for the MFU; 0: the trainer measures it
    BadStepSpec bad_steps;
    std::int64_t check_replicas = 0;  // interval in steps; 0: replicas are not compared
    std::vector<FaultSpec> faults;
    std::int64_t checkpoint_every = 0;  // interval in steps; 0: only at the end
    std::int64_t checkpoint_keep = 2;
    // also keep checkpoints whose step is a multiple of this number; 0: none
    std::int64_t checkpoint_keep_every = 0;
    // number of newest checkpoints with optimizer state; 0: all
    std::int64_t checkpoint_keep_optimizer = 0;
    bool checkpoint_keep_best = false;   // also keep the best checkpoint
    bool checkpoint_first_step = false;  // test: save after the first step, then read it back
    std::chrono::seconds checkpoint_wait_for_space{600};  // how long the last save waits for space
    CheckpointFormat checkpoint_format = CheckpointFormat::Mca;
    // maximum host memory, in MiB, of a rank's copy of its part of a checkpoint
    std::int64_t checkpoint_buffer_mib = 2048;
    ExportFormat export_format = ExportFormat::Hf;
    ExportDtype export_dtype = ExportDtype::Bf16;
    bool export_best = false;      // export the best checkpoint, not the last checkpoint
    bool export_averaged = false;  // export the EMA of the weights
    bool export_merged = false;    // export the adapter of a LoRA job merged into its base model
    // also export every n-th checkpoint during training; 0: none
    std::int64_t export_every = 0;
    std::int64_t export_keep = 2;  // number of newest such exports to keep

    // Returns the number of micro-batches of one data-parallel rank per step.
    std::int64_t microbatches() const { return global_batch_size / micro_batch_size / parallel.dp; }

    BatchSizes batch_sizes() const { return {batch_phases, global_batch_size, seq_length}; }

    // Returns the number of sequences of a sample.
    std::int64_t sequences_per_sample() const { return data.pairs ? 2 : 1; }
};

// Reads a document that check_job() accepted. Fails unless its kind is train or resume.
Result<TrainSpec> train_spec(std::string_view document);
// Sets the number of steps. Also sets the warm-up if it is given as a share of the steps.
void set_steps(TrainSpec& spec, std::int64_t steps);

// Reads the part of a document that a tokenize job needs: model.from, tokenizer and data.
Result<TrainSpec> tokenize_spec(std::string_view document);

}  // namespace roll::spec
