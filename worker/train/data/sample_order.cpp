#include "worker/train/data/sample_order.hpp"

#include "worker/train/data/text_options.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {

data::Corpus training_corpus(std::vector<data::NamedTokens> files, const spec::TrainSpec& spec) {
    const spec::DataSpec& given = spec.data;
    if (given.order == spec::SampleOrder::Roll)
        return need(data::Corpus::make(std::move(files), given.valid_fraction, spec.seq_length,
                                       cut_of(given)));
    const double valid = given.valid_fraction;
    return need(data::Corpus::split(std::move(files),
                                    given.split.value_or(std::array{1 - valid, valid, 0.0})));
}

data::Sampler job_sampler(const data::Corpus& corpus, const spec::TrainSpec& spec) {
    data::SampleRules rules{.rows = row_rules(spec), .seed = spec.seed};
    rules.best_fit = spec.data.packing == spec::Packing::BestFit;
    rules.by_tokens = spec.data.weigh_tokens;
    const auto batch = static_cast<std::uint64_t>(spec.global_batch_size);
    for (const spec::DataPhase& phase : spec.data.phases)
        rules.phases.push_back({static_cast<std::uint64_t>(phase.step) * batch, phase.weights});
    if (spec.data.order == spec::SampleOrder::Megatron)
        rules.megatron = static_cast<std::uint64_t>(spec.steps) * batch;
    return need(data::Sampler::make(corpus, rules));
}

}  // namespace roll::train
