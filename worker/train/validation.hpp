// The held-out sets of a job and what the model makes of them. A set is the tails of the training
// files, or files of its own.
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
    std::string name;      // empty: the job's only one
    bool tracked = false;  // its loss decides what is best
    spec::Interval interval{};
    std::vector<data::Window> windows;   // not empty
    std::int64_t bytes = 0;              // of text that is predicted; 0: it cannot be told
    std::optional<double> ngram_bits{};  // the baseline's bits a byte; of bytes only
};

struct ValidResult {
    std::string name;
    bool tracked = false;
    double loss = 0;  // nats a token
    std::int64_t tokens = 0;
    std::optional<double> bits_per_byte{}, ngram_bits{};
};

// Where training stands, for what is due. `last`: after it nothing else is trained.
struct Moment {
    std::int64_t step = 0;
    std::int64_t tokens_before = 0;  // trained before this step
    std::int64_t tokens = 0;
    bool last = false;
};

class Validation {
  public:
    // The corpora outlive it. `files` are those of data.valid_files, in order. Throws
    // RankFailure(invalid) naming a set of which no token is predicted.
    Validation(const spec::TrainSpec& spec, const data::Corpus& train,
               const std::vector<data::Corpus>& files);

    bool empty() const { return sets_.empty(); }
    std::vector<std::string> names() const;

    // The sets that are due, in order, the tracked one first.
    std::vector<const ValidSet*> due(const Moment& moment) const;

    // Their losses, the same on each rank. All ranks call it.
    std::vector<ValidResult> run(const std::vector<const ValidSet*>& sets, TrainStep& step,
                                 const spec::TrainSpec& spec, std::int64_t vocab,
                                 int dp_rank) const;

    // Before results are told: what of them only one rank needs to know. Reads all held-out tokens
    // once, and the training text where there is a baseline.
    void measure_text(const tokenizer::Tokenizer& tokenizer, const data::Corpus& train);

  private:
    std::vector<ValidSet> sets_;
    bool measured_ = false;
};

// A row of the metrics: the tracked set's numbers by their plain names, and, of sets with names,
// every one's by NAME/SET.
OrderedJson valid_row(std::int64_t step, const std::vector<ValidResult>& results);

// The same for people, a line a set.
std::string valid_text(std::int64_t step, const std::vector<ValidResult>& results);

}  // namespace roll::train
