// The held-out sets of a job, and the model's loss on them. A set is either the tails of the
// training files or files of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train.hpp"
#include "worker/tokenizer/tokenizer.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

struct ValidSet {
    std::string name;      // empty if it is the job's only set
    bool tracked = false;  // true: its loss decides which checkpoint is the best
    spec::Interval interval{};
    std::vector<data::Window> windows;   // never empty
    std::int64_t bytes = 0;              // bytes of predicted text; 0 if unknown
    std::optional<double> ngram_bits{};  // bits per byte of the baseline; only for byte tokens
};

struct ValidResult {
    std::string name;
    bool tracked = false;
    double loss = 0;  // in nats per token
    std::int64_t tokens = 0;
    std::optional<double> bits_per_byte{}, ngram_bits{};
};

// Progress of training, which decides which sets are due. `last` is true if nothing is trained
// after this.
struct Moment {
    std::int64_t step = 0;
    std::int64_t tokens_before = 0;  // tokens trained before this step
    std::int64_t tokens = 0;
    bool last = false;
};

class Validation {
  public:
    // Makes the sets. The corpora must outlive this. `files` are those of data.valid_files, in
    // order. Throws RankFailure(invalid), which names a set without any predicted token.
    Validation(const spec::TrainSpec& spec, const data::Corpus& train,
               const std::vector<data::Corpus>& files);

    bool empty() const { return sets_.empty(); }
    std::vector<std::string> names() const;

    // Returns the sets that are due, in order, the tracked one first.
    std::vector<const ValidSet*> due(const Moment& moment) const;

    // Returns the losses of `sets`, which are the same on each rank. Every rank must call it.
    std::vector<ValidResult> run(const std::vector<const ValidSet*>& sets, TrainStep& step,
                                 const spec::TrainSpec& spec, std::int64_t vocab,
                                 int dp_rank) const;

    // Computes the sets' text bytes and the n-gram baseline, which only the reporting rank needs.
    // Call it before run(). Reads all held-out tokens once, and the training text if there is a
    // baseline.
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
