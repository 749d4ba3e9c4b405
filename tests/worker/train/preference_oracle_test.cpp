// Compares training on preferences with tests/oracle/preference_steps.py, whose losses are TRL's,
// in float64 to 1e-10: loss, gradient norm, rewards and divergence of each step, the gradients of
// the first, and the weights after the last. A reward model is transformers' model for sequence
// classification, so that its files are read and compared, too. The answers are packed here and
// padded there.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "common/files.hpp"
#include "common/spec/check/train_rules.hpp"
#include "tests/worker/train/oracle.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, at::Tensor>;

// The padded answers of the oracle, or its mismatched ones with the prefix "kl_".
struct Answers {
    at::Tensor ids, begin, length;

    explicit Answers(const Tensors& of, const std::string& prefix = "")
        : ids(of.at(prefix + "ids").to(at::kLong)),
          begin(of.at(prefix + "begin").to(at::kLong)),
          length(of.at(prefix + "length").to(at::kLong)) {}

    // Packs the sequences [first, last) of a step. A reward model also reads the last tokens.
    Microbatch packed(std::int64_t step, std::int64_t first, std::int64_t last,
                      const at::Tensor& references, bool scores) const {
        std::vector<at::Tensor> inputs, targets;
        Microbatch batch;
        std::int64_t rows = 0;
        for (std::int64_t i = first; i < last; ++i) {
            const auto size = length[step][i].item<std::int64_t>();
            const auto prompt = begin[step][i].item<std::int64_t>();
            inputs.push_back(ids[step][i].narrow(0, 0, scores ? size : size - 1));
            targets.push_back(ids[step][i].narrow(0, 1, size - 1).clone());
            targets.back().narrow(0, 0, prompt - 1).fill_(ops::kIgnored);
            if (scores) targets.push_back(at::full({1}, ops::kIgnored, at::kLong));
            batch.segments.push_back(rows);
            batch.references.push_back(references[step][i].item<double>());
            rows += inputs.back().numel();
        }
        batch.tokens_BT = at::cat(inputs).unsqueeze(0);
        batch.targets_BT = at::cat(targets).unsqueeze(0);
        return batch;
    }
};

// The steps of one case: its answers, and labels with mismatched answers if they are unpaired.
struct Steps {
    Answers answers, mismatched;
    at::Tensor labels, references, kl_references;
    bool labelled = false, scores = false;
    at::Tensor margins = {};  // undefined if the pairs have none

    Microbatch packed(std::int64_t step, std::int64_t first, std::int64_t last) const {
        Microbatch batch = answers.packed(step, first, last, references, scores);
        for (std::int64_t pair = first / 2; margins.defined() && pair < last / 2; ++pair)
            batch.margins.push_back(margins[step][pair].item<double>());
        for (std::int64_t i = first; labelled && i < last; ++i)
            batch.labels.push_back(labels[step][i].item<double>() != 0 ? 1 : 0);
        if (labelled)
            batch.mismatched.push_back(mismatched.packed(step, first, last, kl_references, false));
        return batch;
    }
};

void expect_steps(const fs::path& top, const fs::path& path) {
    const Json objective = parse_json(read_file(path / "objective.json").value()).value();
    EXPECT_TRUE(spec::preference_problems({{"objective", objective}}).empty());
    const Tensors pairs = tensors_of(top / "pairs.safetensors"),
                  told = tensors_of(path / "told.safetensors");
    const at::Tensor losses = told.at("loss"), norms = told.at("norm"),
                     rewards = told.at("rewards");
    const spec::PreferenceSpec preference = spec::preference_spec(objective);
    Steps steps{Answers(pairs),
                Answers(pairs, "kl_"),
                pairs.at("label"),
                told.at("references"),
                told.at("kl_references"),
                preference.is_unpaired(),
                preference.compares_scores()};
    if (!preference.has_reference()) steps.references.zero_();
    if (path.filename() == "reward-margin") steps.margins = told.at("margins");
    const fs::path start = (preference.compares_scores() ? path : top) / "weight";
    const spec::ModelConfig config = setup_model(start).config;
    EXPECT_EQ(config.scores, preference.compares_scores());
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 2);
    TrainStep trainer(config, schedule, {self, self},
                      {.init = {.dtype = at::kDouble}, .clip_grad = 1.0, .preference = preference});
    Chunk& chunk = trainer.chunks()[0];
    load_weights(start, chunk.parameters());
    const std::int64_t sequences = steps.answers.ids.size(1);
    double worst_grad = 0, worst_loss = 0;
    for (std::int64_t step = 0; step < steps.answers.ids.size(0); ++step) {
        // Two answers in the first micro-batch, the others in the second.
        const std::vector<Microbatch> batch = {steps.packed(step, 0, 2),
                                               steps.packed(step, 2, sequences)};
        const StepResult result = trainer.run(batch, 1e-3);
        ASSERT_TRUE(result.updated);
        const double loss = losses[step].item<double>(), norm = norms[step].item<double>();
        EXPECT_NEAR(result.loss, loss, kLimit * std::abs(loss)) << "step " << step;
        EXPECT_NEAR(result.grad_norm, norm, kLimit * norm) << "step " << step;
        worst_loss = std::max(worst_loss, std::abs(result.loss - loss) / std::abs(loss));
        ASSERT_TRUE(result.pairs);
        EXPECT_EQ(result.pairs->samples(),
                  static_cast<double>(preference.is_unpaired() ? sequences : sequences / 2));
        if (preference.is_unpaired()) {
            const double kl = told.at("kl")[step].item<double>();
            EXPECT_NEAR(result.pairs->mean(PairSums::Kl), kl, kLimit * std::max(1.0, kl));
            EXPECT_EQ(kl > 0, path.filename() == "kto");
        }
        const double seen[] = {result.pairs->mean(PairSums::RewardChosen),
                               result.pairs->mean(PairSums::RewardRejected)};
        for (int i = 0; i < 2; ++i) {
            const double reward = rewards[step][i].item<double>();
            EXPECT_NEAR(seen[i], reward, kLimit * std::max(1.0, std::abs(reward)));
        }
        if (step == 0)
            worst_grad = expect_parameters(chunk.parameters().grad,
                                           read_parameters(path / "grad", config), "gradient");
    }
    const double worst_weight = expect_parameters(
        chunk.parameters().weight, read_parameters(path / "trained", config), "weight");
    std::printf("%-11s worst: loss %.1e, gradient %.1e, weight %.1e\n", path.filename().c_str(),
                worst_loss, worst_grad, worst_weight);
}

TEST(PreferenceOracle, StepsHaveTheLossesGradientsAndWeightsOfTrl) {
    at::set_num_threads(1);
    int cases = 0;
    for (const fs::path& path : oracle_cases()) {
        if (!fs::exists(path / "objective.json")) continue;
        SCOPED_TRACE(path.filename());
        expect_steps(path.parent_path(), path);
        ++cases;
    }
    EXPECT_EQ(cases, 17);
}

}  // namespace
}  // namespace roll::train
