// The validation sets of a job, and the model's loss on them. A set is either the held-out tails of
// the training files or separate files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/batches.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct ValidSet {
    std::string name;      // name of the set; empty if it is the job's only set
    bool tracked = false;  // true: the set's loss decides which checkpoint is the best
    spec::Interval interval{};
    std::vector<data::Window> windows;  // windows of the set; never empty
    std::int64_t bytes = 0;  // number of text bytes that the windows predict; 0 if unknown
    // bits per byte of the n-gram baseline; only for byte tokens
    std::optional<double> ngram_bits{};
};

struct ValidResult {
    std::string name;
    bool tracked = false;
    double loss = 0;  // mean loss in nats per token, or mean loss of the pairs
    std::int64_t tokens = 0;
    std::optional<double> bits_per_byte{}, ngram_bits{};
    std::optional<PairSums> pairs{};  // of an objective that compares pairs; `loss` is their mean
};

// Progress of training, which decides which sets are due. `last` is true if no training step
// follows.
struct Moment {
    std::int64_t step = 0;
    std::int64_t tokens_before = 0;  // tokens trained before this step
    std::int64_t tokens = 0;
    bool last = false;
};

class Validation {
  public:
    // Makes the sets. The corpora must outlive this object. `files` are the corpora of
    // data.valid_files, in order. Throws RankFailure(invalid), which names a set without any
    // predicted token.
    Validation(const spec::TrainSpec& spec, const data::Corpus& train,
               const std::vector<data::Corpus>& files);

    bool empty() const { return sets_.empty(); }
    std::vector<std::string> names() const;
    std::vector<data::Window> windows() const;  // returns the windows of all sets

    // Returns the sets to evaluate at this moment, in order, the tracked one first.
    std::vector<const ValidSet*> due(const Moment& moment) const;

    // Returns the model's losses on `sets`. Every rank must call this function, and every rank gets
    // the same losses.
    std::vector<ValidResult> run(const std::vector<const ValidSet*>& sets, TrainStep& step,
                                 const spec::TrainSpec& spec, const BatchRules& rules,
                                 int dp_rank) const;

    // Computes the number of predicted text bytes of each set and the n-gram baseline, which only
    // the reporting rank needs. Call it before run(). Reads all held-out tokens once, and the
    // training text if there is a baseline.
    void measure_text(const tokenizer::Tokenizer& tokenizer, const data::Corpus& train);

  private:
    std::vector<ValidSet> sets_;
    bool measured_ = false;
};

// Returns a row of the metrics: the tracked set's values under their plain names, and each named
// set's values as NAME/SET.
OrderedJson valid_row(std::int64_t step, const std::vector<ValidResult>& results);

// Returns the results as text, one line per set.
std::string valid_text(std::int64_t step, const std::vector<ValidResult>& results);

}  // namespace roll::train
