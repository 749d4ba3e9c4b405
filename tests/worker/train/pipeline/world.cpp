#include "tests/worker/train/pipeline/world.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include "worker/plan/pipeline_check.hpp"
#include "worker/train/process/memory.hpp"
#include "worker/train/prove/batches.hpp"

namespace roll::train {
namespace {

// roll-rank also allocates tensors in this way. It takes a tenth less time than LibTorch's way.
[[maybe_unused]] const bool kKeepsMemory = [] {
    keep_freed_memory();
    return true;
}();

// chosen so that the gradient norm exceeds kClip in every step
constexpr double kStd = 0.2;

// Makes preference pairs of a micro-batch, whose rows are one sequence of 22 positions. The first
// two targets of each answer belong to the prompt.
void make_pairs(Microbatch& data, int number) {
    data.tokens_BT = data.tokens_BT.view({1, -1});
    data.targets_BT = data.tokens_BT.roll(-1, 1);
    data.segments =
        number % 2 == 0 ? std::vector<std::int64_t>{0, 4, 11, 15} : std::vector<std::int64_t>{0, 9};
    if (number == 5) {
        data.segments = {0};
        data.targets_BT.fill_(ops::kIgnored);
        return;
    }
    for (const std::int64_t start : data.segments) {
        data.targets_BT[0].narrow(0, start, 2).fill_(ops::kIgnored);
        data.references.push_back(-5 - 0.5 * static_cast<double>((start + number) % 7));
    }
}

// Labels the answers that make_pairs() made, and adds mismatched answers, whose log-probabilities
// under the reference are lower than those under the model.
void make_labels(Microbatch& data, int number) {
    Microbatch& other = data.mismatched.emplace_back(data);
    if (data.references.empty()) return;
    other.tokens_BT = data.tokens_BT.roll(3, 1);
    for (double& reference : other.references) reference -= 40;
    for (std::size_t i = 0; i < data.segments.size(); ++i)
        data.labels.push_back((static_cast<std::size_t>(number) + i) % 3 == 0 ? 0 : 1);
}

// Returns the micro-batches of a step. Their tokens are within the world's vocabulary.
std::vector<Microbatch> make_batch(const World& world, int step) {
    std::vector<Microbatch> batch = tiny_batch(step, world.dp * world.schedule.microbatches);
    const std::int64_t vocab = world.config.vocab;
    for (Microbatch& data : batch) {
        data.first_row = (100 * step + (&data - batch.data())) * data.tokens_BT.numel();
        data.tokens_BT.remainder_(vocab);
        const at::Tensor targets_BT = data.targets_BT.remainder(vocab);
        data.targets_BT = targets_BT.masked_fill(data.targets_BT.eq(ops::kIgnored), ops::kIgnored);
        const int number = static_cast<int>(&data - batch.data()) % kMicrobatches;
        if (world.preference) make_pairs(data, number);
        if (world.data == Data::Labels) make_labels(data, number);
        if (world.preference) continue;
        if (world.data == Data::Packed) data.segments = {0, 3, 4, 11, 13, 18};
        const bool is_short = world.data == Data::Lengths && (&data - batch.data()) % 2 == 1;
        if (is_short) {
            data.tokens_BT = data.tokens_BT.narrow(1, 4, 7).contiguous();
            data.targets_BT = data.targets_BT.narrow(1, 4, 7).contiguous();
        }
        if (world.loss.has_teacher()) {
            at::Generator generator =
                at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + number));
            data.teacher = invented_teacher(data.tokens_BT.numel(), vocab, /*top_k=*/5, generator);
        }
    }
    if (world.change) world.change(step, batch);
    return batch;
}

InitOptions init_of(const World& world) {
    return {.std = kStd, .dtype = world.dtype, .device = world.device, .freeze = world.freeze};
}

}  // namespace

std::unique_ptr<Chunk> starting_model(const World& world) {
    const at::InferenceMode no_autograd;
    auto model = std::make_unique<Chunk>(world.config, whole_chunk(world.config), init_of(world));
    model->start_magnitudes();
    return model;
}

void set_references(Chunk& model, std::vector<Microbatch>& batch) {
    const at::InferenceMode no_autograd;
    for (Microbatch& data : batch) {
        if (data.references.empty()) continue;
        const at::Tensor log_probs_S = model.log_probs(data, {});
        const auto* const values = log_probs_S.const_data_ptr<double>();
        data.references.assign(values, values + log_probs_S.numel());
        set_references(model, data.mismatched);
    }
}

LocalJob job_of(const World& world) {
    return {.config = world.config,
            .schedule = world.schedule,
            .dp = world.dp,
            .tp = world.tp,
            .cp = world.cp,
            .options = {.init = init_of(world),
                        .optimizer = world.optimizer,
                        .clip_grad = world.clip,
                        .count_zeros = true,
                        .loss = world.loss,
                        .preference = world.preference,
                        .split = world.split,
                        .sequence = world.sequence,
                        .zero = world.zero,
                        .recompute = world.recompute,
                        .bucket_numel = 2000},
            .fabric = world.fabric,
            .steps = world.steps,
            .first_step = world.first_step,
            .batch = [&world](int step) { return make_batch(world, step); },
            .saves_after = world.saves_after,
            .saves_to = world.saves_to,
            .starts_from = world.starts_from,
            .model = world.model,
            .parallel = world.parallel,
            .load = world.load,
            .divide = world.divide,
            .evaluates = world.evaluates,
            .prepare = world.prepare};
}

Named train(const World& world) {
    EXPECT_TRUE(plan::check(world.schedule));
    Named seen;
    take(train_locally(job_of(world)), seen);
    for (int step = world.first_step; step < world.steps; ++step) {
        const at::Tensor& factor = seen.at(std::to_string(step) + ".clip_factor");
        EXPECT_EQ(factor.item<double>() < 1, world.clip > 0);
    }
    return seen;
}

std::optional<std::string> first_difference(const Record& seen, const Named& reference) {
    const std::vector<Difference> all = differences(seen, reference, 1e-10);
    if (all.empty()) return std::nullopt;
    return all.front().name;
}

}  // namespace roll::train
