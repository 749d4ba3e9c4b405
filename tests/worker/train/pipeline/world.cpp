#include "tests/worker/train/pipeline/world.hpp"

#include <ATen/Parallel.h>

#include "worker/plan/pipeline_check.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

// chosen so that the gradient norm exceeds kClip in every step
constexpr double kStd = 0.2;

// Returns the micro-batches of a step. Their tokens are within the world's vocabulary.
std::vector<Microbatch> make_batch(const World& world, int step) {
    std::vector<Microbatch> batch = tiny_batch(step, world.dp * world.schedule.microbatches);
    const std::int64_t vocab = world.config.vocab;
    for (Microbatch& data : batch) {
        data.tokens_BT.remainder_(vocab);
        const at::Tensor targets_BT = data.targets_BT.remainder(vocab);
        data.targets_BT = targets_BT.masked_fill(data.targets_BT.eq(ops::kIgnored), ops::kIgnored);
        if (world.data == Data::Packed) data.segments = {0, 3, 4, 11, 13, 18};
        const bool is_short = world.data == Data::Lengths && (&data - batch.data()) % 2 == 1;
        if (!is_short) continue;
        data.tokens_BT = data.tokens_BT.narrow(1, 4, 7).contiguous();
        data.targets_BT = data.targets_BT.narrow(1, 4, 7).contiguous();
    }
    return batch;
}

// Records a step. Called by each stage; every stage reports the same numbers for the whole model.
void note_step(Named& seen, int step, TrainStep& trainer, const StepResult& result) {
    const std::string prefix = std::to_string(step) + ".";
    const std::pair<const char*, double> numbers[] = {
        {"loss", result.loss},
        {"grad_norm", result.grad_norm},
        {"clip_factor", result.clip_factor},
        {"grad_zeros", static_cast<double>(result.grad_zeros.value_or(-1))}};
    for (const auto& [name, number] : numbers)
        note_one(seen, prefix + name, at::scalar_tensor(number, at::kDouble));
    note(seen, prefix, trainer);
}

// A rank's coordinates. Ranks are numbered along tp first, then dp, then pp.
struct Seat {
    const World& world;
    LocalFabric& fabric;
    int d, p, t;

    int number(int of_d, int of_p, int of_t) const {
        return (of_p * world.dp + of_d) * world.tp + of_t;
    }
    int number() const { return number(d, p, t); }

    std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& ranks) {
        return fabric.group(name + " " + std::to_string(ranks.front()), ranks, number());
    }
};

void train_rank(Seat seat, Named& seen) {
    at::set_num_threads(1);
    const World& world = seat.world;
    const int pp_size = world.schedule.pp;
    std::vector<int> pp_ranks, dp_ranks, tp_ranks;
    for (int p = 0; p < pp_size; ++p) pp_ranks.push_back(seat.number(seat.d, p, seat.t));
    for (int d = 0; d < world.dp; ++d) dp_ranks.push_back(seat.number(d, seat.p, seat.t));
    for (int t = 0; t < world.tp; ++t) tp_ranks.push_back(seat.number(seat.d, seat.p, t));
    const auto pp = seat.group("pp", pp_ranks), dp = seat.group("dp", dp_ranks),
               tp = seat.group("tp", tp_ranks);
    std::unique_ptr<Communicator> tie;
    const bool at_end = seat.p == 0 || seat.p == pp_size - 1;
    if (world.config.tied && pp_size > 1 && at_end)
        tie = seat.group("tie", {pp_ranks.front(), pp_ranks.back()});
    TrainStep trainer(world.config, world.schedule, {*pp, *dp, tie.get(), tp.get()},
                      {.init = {.std = kStd, .dtype = world.dtype, .freeze = world.freeze},
                       .clip_grad = world.clip,
                       .count_zeros = true,
                       .split = world.split,
                       .sequence = world.sequence,
                       .zero = world.zero,
                       .recompute = world.recompute,
                       .bucket_numel = 2000});
    const int microbatches = world.schedule.microbatches;
    const auto own = [&](const std::vector<Microbatch>& batch) {
        return std::span(batch).subspan(seat.d * microbatches, microbatches);
    };
    for (int step = 0; step < world.steps; ++step) {
        const auto batch = make_batch(world, step);
        const StepResult result = trainer.run(own(batch), 1e-3);
        EXPECT_EQ(result.clip_factor<1, world.clip> 0);
        note_step(seen, step, trainer, result);
    }
    const auto held_out = make_batch(world, world.steps);
    const LossSum valid = trainer.evaluate(own(held_out));
    note_one(seen, "valid.loss", at::scalar_tensor(valid.loss, at::kDouble));
    note_one(seen, "valid.tokens", at::scalar_tensor(valid.tokens, at::kDouble));
}

}  // namespace

Named train(const World& world) {
    EXPECT_TRUE(plan::check(world.schedule));
    LocalFabric fabric(world.dp * world.schedule.pp * world.tp, world.fabric);
    Named seen;  // needs no lock, because one rank runs at a time
    fabric.run([&](int rank) {
        const int t = rank % world.tp, d = rank / world.tp % world.dp;
        train_rank({world, fabric, d, rank / world.tp / world.dp, t}, seen);
    });
    return seen;
}

std::optional<std::string> first_difference(const Named& seen, const Named& reference) {
    // Returns the place of a quantity in the order of all steps.
    const auto place = [](const std::string& name) {
        constexpr const char* kParts[] = {"loss",        "grad.",   "grad_zeros", "grad_norm",
                                          "clip_factor", "weight.", "average.",   "square."};
        const std::size_t dot = name.find('.');
        const std::string step = name.substr(0, dot), quantity = name.substr(dot + 1);
        int part = 0;
        for (const char* known : kParts) {
            if (quantity.starts_with(known)) break;
            ++part;
        }
        return std::pair(step, part);  // "valid" is the last step
    };
    std::optional<std::string> first;
    for (const auto& [name, tensor] : reference) {
        const auto own = seen.find(name);
        if (own != seen.end() && error(own->second, tensor) <= 1e-10) continue;
        if (!first || place(name) < place(*first)) first = name;
    }
    return first;
}

}  // namespace roll::train
