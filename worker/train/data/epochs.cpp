#include "worker/train/data/epochs.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <ATen/Parallel.h>

#include "common/counted.hpp"
#include "worker/train/data/corpus/prepare.hpp"
#include "worker/train/data/corpus/sampler.hpp"
#include "worker/train/data/sample_order.hpp"
#include "worker/train/data/scratch_tokens.hpp"
#include "worker/train/data/text_options.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// largest size in bytes of the texts that are tokenized for a plan
constexpr std::uintmax_t kPlannedBytes = 64 << 20;

// Returns the number of bytes of text that must be tokenized. A .bin file does not count, because
// it already has tokens.
std::uintmax_t text_bytes(const spec::DataSpec& data) {
    std::uintmax_t bytes = 0;
    for (const fs::path path : data.train) {
        std::error_code error;
        const std::uintmax_t size = fs::file_size(path, error);
        if (path.extension() != ".bin" && !error) bytes += size;
    }
    return bytes;
}

void check_schedule(const spec::TrainSpec& spec) {
    const spec::OptimizerSpec& optimizer = spec.optimizer;
    const std::int64_t end = optimizer.decay_steps > 0 ? optimizer.decay_steps : spec.steps;
    const std::string found = "train.epochs gives " + counted(spec.steps, "step");
    if (optimizer.warmup_steps > end)
        throw RankFailure(2, found + ", but train.optimizer.warmup_steps is " +
                                 std::to_string(optimizer.warmup_steps) +
                                 "; set warmup_steps to at most " + std::to_string(end));
    const std::int64_t most = end - optimizer.warmup_steps;
    if (optimizer.schedule == spec::LrSchedule::Wsd && optimizer.wsd_decay_steps > most)
        throw RankFailure(2, found + ", but train.optimizer.wsd_decay_steps is " +
                                 std::to_string(optimizer.wsd_decay_steps) +
                                 "; set wsd_decay_steps to at most " + std::to_string(most));
}

}  // namespace

void set_steps_of_epochs(spec::TrainSpec& spec, const data::Corpus& corpus, const Done& done) {
    const data::SampleRules rules{.rows = row_rules(spec),
                                  .best_fit = spec.data.packing == spec::Packing::BestFit};
    const std::uint64_t windows = need(data::Sampler::make(corpus, rules)).windows();
    const double wanted = spec.epochs * static_cast<double>(windows);
    // Do not let rounding errors add a sample: a product such as 0.1 x 30 may be slightly larger
    // than the whole number.
    const auto samples = static_cast<std::int64_t>(std::ceil(wanted * (1 - 1e-12)));
    spec::set_steps(spec, done.step + spec::steps_for(spec.batch_sizes(), done.samples, samples));
    check_schedule(spec);
}

void plan_epochs(spec::TrainSpec& spec) {
    if (text_bytes(spec.data) > kPlannedBytes) return;
    const auto tokenizer = job_tokenizer(spec);
    const Scratch scratch;
    data::PrepareOptions options = text_options(spec, *tokenizer, {});
    options.directory = scratch.path;
    options.threads = at::get_num_threads();
    std::vector<data::NamedTokens> files;
    for (const std::string& path : spec.data.train)
        files.push_back({path, open_tokens(path, *tokenizer, options)});
    const data::Corpus corpus = training_corpus(std::move(files), spec);
    set_steps_of_epochs(spec, corpus, {});
}

}  // namespace roll::train
