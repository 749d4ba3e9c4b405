// The held-out sets of a job and the model's loss on them. A set is either the tails of the
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
    bool tracked = false;  // its loss decides which checkpoint is the best
    spec::Interval interval{};
    std::vector<data::Window> windows;   // not empty
    std::int64_t bytes = 0;              // of predicted text; 0 if unknown
    std::optional<double> ngram_bits{};  // the baseline's bits per byte; byte tokens only
};

struct ValidResult {
    std::string name;
    bool tracked = false;
    double loss = 0;  // nats per token
    std::int64_t tokens = 0;
    std::optional<double> bits_per_byte{}, ngram_bits{};
};

// Progress of training, which decides the sets that are due. `last`: nothing is trained after it.
struct Moment {
    std::int64_t step = 0;
    std::int64_t tokens_before = 0;  // trained before this step
    std::int64_t tokens = 0;
    bool last = false;
};

class Validation {
  public:
    // The corpora must outlive it. `files` are those of data.valid_files, in order. Throws
    // RankFailure(invalid) naming a set without any predicted token.
    Validation(const spec::TrainSpec& spec, const data::Corpus& train,
               const std::vector<data::Corpus>& files);

    bool empty() const { return sets_.empty(); }
    std::vector<std::string> names() const;

    // Returns the due sets in order, the tracked one first.
    std::vector<const ValidSet*> due(const Moment& moment) const;

    // Returns the losses of `sets`, the same on each rank. Every rank must call it.
    std::vector<ValidResult> run(const std::vector<const ValidSet*>& sets, TrainStep& step,
                                 const spec::TrainSpec& spec, std::int64_t vocab,
                                 int dp_rank) const;

    // Computes text bytes and the n-gram baseline, which only the reporting rank needs; call it
    // before run(). Reads all held-out tokens once, and the training text if there is a baseline.
    void measure_text(const tokenizer::Tokenizer& tokenizer, const data::Corpus& train);

  private:
    std::vector<ValidSet> sets_;
    bool measured_ = false;
};

// Returns a metrics row: the tracked set's values under their plain names, and each named set's
// values as NAME/SET.
OrderedJson valid_row(std::int64_t step, const std::vector<ValidResult>& results);

// Returns the same as text, one line per set.
std::string valid_text(std::int64_t step, const std::vector<ValidResult>& results);

}  // namespace roll::train
