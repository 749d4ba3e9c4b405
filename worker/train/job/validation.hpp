// The validation sets of a job, and the model's loss on them. A set is either the held-out tails of
// the training files or separate files.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct ValidSet {
    std::string name;      // name of the set; empty if it is the job's only set
    bool tracked = false;  // true: the loss of this set decides which checkpoint is the best
    spec::Interval interval{};
    std::vector<data::Window> windows;  // windows of the set; never empty
    std::int64_t bytes = 0;             // number of text bytes that the windows predict; 0: unknown
    // bits per byte of the n-gram baseline; only for byte tokens
    std::optional<double> ngram_bits{};
};

struct ValidResult {
    std::string name;
    bool tracked = false;
    double loss = 0;  // mean loss in nats per token, or mean loss of the pairs
    std::int64_t tokens = 0;
    std::optional<double> bits_per_byte{}, ngram_bits{};
    std::optional<double> divergence{};  // mean divergence from the teacher
    // only for an objective that compares pairs: the sums from which `loss` is computed
    std::optional<PairSums> pairs{};
};

// The progress of training. Validation::due() compares the progress with the intervals of the
// validation sets. `last` is true if no training step follows.
struct Moment {
    std::int64_t step = 0;
    std::int64_t tokens_before = 0;  // tokens trained before this step
    std::int64_t tokens = 0;
    bool last = false;
};

class Validation {
  public:
    // Makes the sets. `files` are the corpora of data.valid_files, in order. All corpora must
    // outlive this object. Throws RankFailure(invalid) if a set has no predicted token; the message
    // names the set.
    Validation(const spec::TrainSpec& spec, const data::Corpus& train,
               const std::vector<data::Corpus>& files);

    bool empty() const { return sets_.empty(); }
    std::vector<std::string> names() const;
    // Returns all keys that a row of valid_row() may have. `is_bytes`: the tokens are bytes.
    std::vector<std::string> metrics(const spec::TrainSpec& spec, bool is_bytes) const;
    std::vector<data::Window> windows() const;  // returns the windows of all sets

    // Returns the sets to evaluate at this moment, in order. The tracked set comes first.
    std::vector<const ValidSet*> due(const Moment& moment) const;

    // Returns the model's losses on `sets`. Every rank must call this function, and every rank gets
    // the same losses. Calls `ends` before each part of a set, and returns nullopt if a call
    // returns true. `ends` must return the same value on all ranks.
    std::optional<std::vector<ValidResult>> run(const std::vector<const ValidSet*>& sets,
                                                TrainStep& step, const spec::TrainSpec& spec,
                                                const BatchRules& rules, int dp_rank,
                                                const std::function<bool()>& ends) const;

    // Computes, for each set, the number of predicted text bytes and the n-gram baseline. Only the
    // rank that reports needs these numbers. Must be called before run(). Reads all held-out tokens
    // once. A baseline also reads the training text.
    void measure_text(const tokenizer::Tokenizer& tokenizer, const data::Corpus& train);

  private:
    std::vector<ValidSet> sets_;
    bool measured_ = false;
};

// Returns a row of the metrics. The keys of the tracked set have no suffix, for example valid_loss.
// The keys of a named set have the suffix /NAME, for example valid_loss/NAME.
OrderedJson valid_row(std::int64_t step, const std::vector<ValidResult>& results);

// Returns the results as text, one line per set.
std::string valid_text(std::int64_t step, const std::vector<ValidResult>& results);

}  // namespace roll::train
