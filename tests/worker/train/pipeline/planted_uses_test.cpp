// Tests that the comparison of layouts finds bugs in when and how ranks use what they send, receive
// and draw, such as a buffer that is used again too early. The in-process fabric, or a change of a
// rank's weights before the first step, simulates each bug; the trainer is unchanged. For each bug,
// prints the first quantity and the first tensor that differ from those of one rank. Without the
// bug, the same cell does not differ.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

// A layout, and a bug that `plant` adds to it.
struct Misuse {
    const char* name;
    World world;
    std::function<void(World&)> plant;
    // Beginning of the first quantity that is to differ, and a part of the first tensor's name
    const char* quantity;
    const char* tensor;
};

World cell_of(plan::PipelineSchedule schedule, int dp, int tp) {
    return {.config = split_model(false),
            .schedule = std::move(schedule),
            .dp = dp,
            .tp = tp,
            .fabric = {.seed = 1},
            .steps = 1};
}

World replicas(int zero = 0) {
    World world = cell_of(plan::gpipe(1, 1, kMicrobatches / 2), 2, 1);
    world.zero = zero;
    return world;
}

World columns(int tp) { return cell_of(plan::gpipe(1, 1, kMicrobatches), 1, tp); }

World stages(int tp = 1) { return cell_of(plan::gpipe(2, 1, kMicrobatches), 1, tp); }

World stages_again() {
    World world = stages();
    world.recompute.resize(static_cast<std::size_t>(world.config.layers));
    for (const std::int64_t first : {0, 2})
        plan::set_recomputed(world.recompute, {first, first + 2}, spec::Recompute::Full, 2, 2);
    return world;
}

World with_steps(World world, int steps) {
    world.steps = steps;
    return world;
}

// Adds a bug in the transfers of a site.
void change(World& world, Site site, std::function<at::Tensor(const Delivery&)> how) {
    world.fabric.plants.push_back(
        {.kind = Plant::Kind::Change, .site = site, .change = std::move(how)});
}

// A received message overwrites the one before it, whose tensor the rank still uses.
void reuse_received(World& world) {
    change(world, Site::Activation,
           [last = std::map<int, at::Tensor>()](const Delivery& to) mutable {
               at::Tensor& before = last[to.rank];
               if (before.defined()) before.copy_(to.right.view_as(before));
               before = to.transfer.out;
               return to.right;
           });
}

// The weight gradient of a column layer uses rows that the gather has not yet delivered. In each
// layer, the second half of a step's gathers are those of backward.
void use_rows_early(World& world) {
    const int forward = 2 * world.schedule.microbatches;
    change(world, Site::ColumnRows,
           [forward, count = std::map<std::pair<int, int>, int>()](const Delivery& to) mutable {
               if (count[{to.rank, to.transfer.tag.layer}]++ < forward) return to.right;
               const auto rank = static_cast<std::size_t>(to.rank);
               const at::Tensor rows = at::zeros_like(to.right);
               const std::int64_t own = to.inputs[rank].numel();
               rows.view(-1).narrow(0, to.rank * own, own).copy_(to.inputs[rank].view(-1));
               return rows;
           });
}

// Rank 1 issues its buckets in the order in which they happen to be complete, so that its gradients
// meet those of another bucket.
void mix_buckets(World& world) {
    change(
        world, Site::Bucket,
        [last = std::map<std::pair<int, std::int64_t>, at::Tensor>()](const Delivery& to) mutable {
            const at::Tensor other = to.inputs[1];
            const at::Tensor before = std::exchange(last[{to.rank, other.numel()}], other);
            return before.defined() ? to.right - other + before : to.right;
        });
}

// The softmax counts the padding of the last rank's part of the vocabulary, whose logits are 0.
void count_padding(World& world) {
    const std::int64_t vocab = world.config.vocab, tp = world.tp;
    const std::int64_t padding = (vocab + tp - 1) / tp * tp - vocab;
    ASSERT_GT(padding, 0);
    change(world, Site::Loss, [tp, padding](const Delivery& to) {
        at::Tensor all = to.right.clone();  // of each rank and row: maximum, sum, target's logit
        const at::Tensor last_RN = all.view({tp, -1, 3})[tp - 1];
        last_RN.select(1, 1).add_(last_RN.select(1, 0).neg().exp(), static_cast<double>(padding));
        return all;
    });
}

using Steps = std::map<int, TrainStep*>;  // by tensor-parallel rank

// Returns the steps of a job's ranks, which exist while the job trains.
std::shared_ptr<Steps> steps_of(World& world) {
    auto all = std::make_shared<Steps>();
    world.prepare = [all](TrainStep& step) { (*all)[step.groups().tp->rank()] = &step; };
    return all;
}

// Each rank adds the bias of the attention's output before the sum over the ranks.
void add_bias_on_each(World& world) {
    change(world, Site::RowOutput,
           [steps = steps_of(world), tp = world.tp,
            count = std::map<std::pair<int, int>, int>()](const Delivery& to) mutable {
               const int layer = to.transfer.tag.layer;
               const bool is_attention = count[{to.rank, layer}]++ % 2 == 0;
               if (!is_attention) return to.right;
               const Parameters& p = steps->at(to.rank)->chunks().front().parameters();
               const std::string name =
                   "decoder.layers." + std::to_string(layer) + ".self_attention.linear_proj.bias";
               const auto bias = std::ranges::find(p.specs, name, &ParameterSpec::name);
               return to.right + (tp - 1) * p.weight.at(bias - p.specs.begin());
           });
}

// The gradient norm, by which gradients are clipped, is measured before the partial gradients are
// summed over the tensor-parallel ranks.
void clip_before_partial_sum(World& world) {
    // by bucket; the last bucket has the first parameters
    using Sums = std::map<int, at::Tensor, std::greater<>>;
    auto late = std::make_shared<std::map<int, Sums>>();
    change(world, Site::PartialGrads, [late](const Delivery& to) {
        (*late)[to.rank][to.transfer.tag.layer] = to.right.view(-1);
        return to.inputs[static_cast<std::size_t>(to.rank)];
    });
    change(world, Site::StepSums, [late, steps = steps_of(world)](const Delivery& to) {
        std::vector<at::Tensor> sums;
        for (const auto& [bucket, sum] : (*late)[to.rank]) sums.push_back(sum);
        const at::Tensor all = at::cat(sums);
        const Parameters& p = steps->at(to.rank)->chunks().front().parameters();
        std::int64_t begin = 0;
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            if (!p.specs[i].partial) continue;
            p.grad[i].copy_(all.narrow(0, begin, p.grad[i].numel()).view_as(p.grad[i]));
            begin += p.grad[i].numel();
        }
        return to.right;
    });
}

// The gradient norm is measured after the weight decay was added to the gradients.
void count_decayed(World& world) {
    const double decay = world.optimizer.weight_decay;
    const std::unique_ptr<Chunk> model = starting_model(world);
    const double squares = model->parameters().flat_weight.square().sum().item<double>();
    change(world, Site::StepSums, [sum = decay * decay * squares](const Delivery& to) {
        at::Tensor numbers_N = to.right.clone();
        numbers_N.view(-1)[2] += sum;  // the first rank's sum of squares
        return numbers_N;
    });
}

// Each tensor-parallel rank draws its own weights.
void draw_by_rank(World& world) {
    world.prepare = [](TrainStep& step) {
        if (step.groups().tp->rank() == 0) return;
        for (const at::Tensor& weight : step.chunks().front().parameters().weight)
            weight.copy_(weight.flip(0));
    };
}

// The sum over the replicas starts before the last micro-batch's weight gradients are added. Each
// rank adds its own afterwards.
void sum_before_last(World& world) {
    using Inputs = std::map<int, std::vector<at::Tensor>>;  // by bucket
    auto early = std::make_shared<Inputs>();
    auto tokens = std::make_shared<at::Tensor>();
    const int each = world.schedule.microbatches;
    World without = world;
    without.change = [tokens, each](int, std::vector<Microbatch>& batch) {
        *tokens = at::zeros({}, at::kDouble);
        for (const Microbatch& data : batch) tokens->add_(data.targets_BT.ne(ops::kIgnored).sum());
        for (std::size_t i = 0; i < batch.size(); ++i)
            if (static_cast<int>(i) % each == each - 1) batch[i].targets_BT.fill_(ops::kIgnored);
    };
    change(without, Site::TokenCount, [tokens](const Delivery&) { return *tokens; });
    change(without, Site::Bucket, [early](const Delivery& to) {
        (*early)[to.transfer.tag.layer] = to.inputs.vec();
        return to.right;
    });
    train_locally(job_of(without));
    change(world, Site::Bucket, [early](const Delivery& to) {
        const auto other = static_cast<std::size_t>(1 - to.rank);
        return to.right - to.inputs[other] + early->at(to.transfer.tag.layer)[other];
    });
}

void sum_in_bf16(World& world) {
    change(world, Site::Bucket, [](const Delivery& to) {
        at::Tensor sum = at::zeros_like(to.right, at::kBFloat16);
        for (const at::Tensor& input : to.inputs) sum.add_(input.to(at::kBFloat16));
        return sum.to(to.right.scalar_type());
    });
}

std::vector<Misuse> misuses() {
    const std::int64_t row = split_model(false).hidden;
    const auto divide_again = [](World& world) {
        change(world, Site::TokenCount,
               [m = world.schedule.microbatches](const Delivery& to) { return to.right * m; });
    };
    const auto shift_rows = [row](World& world) {
        change(world, Site::Bucket, [row](const Delivery& to) { return to.right.roll(row); });
    };
    const auto count_on_each = [](World& world) {
        change(world, Site::StepSums, [](const Delivery& to) {
            at::Tensor numbers_N = to.right.clone();
            const auto ranks = static_cast<std::int64_t>(to.inputs.size());
            numbers_N.view({ranks, -1}).select(1, 0).mul_(2);  // the losses
            return numbers_N;
        });
    };
    World sequence = columns(2);
    sequence.sequence = true;
    return {
        {"padded columns live", columns(4), count_padding, "0.loss", "0.grad."},
        {"bias added on each tp rank", with_steps(columns(2), 2), add_bias_on_each, "1.loss",
         "1.grad."},
        {"weight gradient before its gather", sequence, use_rows_early, "0.grad.", "linear_"},
        {"received buffer used again too early", stages(), reuse_received, "0.grad.", "0.grad."},
        {"recomputation from a buffer that was used again", stages_again(), reuse_received,
         "0.grad.", "0.grad."},
        {"buckets in the order of their completion", replicas(), mix_buckets, "0.grad.", "0.grad."},
        {"own rows shifted by one row", replicas(1), shift_rows, "0.grad.", "0.grad."},
        {"clipped before the partial gradients are summed", columns(2), clip_before_partial_sum,
         "0.grad_norm", "0.weight."},
        {"loss counted on each tp rank", stages(2), count_on_each, "0.loss", ""},
        {"loss divided by m twice", replicas(), divide_again, "0.loss", "0.grad."},
        {"reduction started before the last micro-batch's weight gradients", replicas(),
         sum_before_last, "0.grad.", "0.grad."},
        {"decayed weights counted in the norm", stages(), count_decayed, "0.grad_norm",
         "0.weight."},
        {"gradients summed in bf16", replicas(), sum_in_bf16, "0.grad.", "0.grad."},
        {"tp ranks with different initial draws", columns(2), draw_by_rank, "0.loss", "0.grad."}};
}

// Returns the first quantity and the first tensor that differ, in the order in which a step
// computes them; empty texts if nothing differs.
std::pair<std::string, std::string> first_of(const World& world, const Named& alone) {
    const std::vector<Difference> all = differences(train_locally(job_of(world)), alone, 1e-10);
    const auto tensor = std::ranges::find_if(all, [&](const Difference& one) {
        const auto known = alone.find(one.name);
        return known != alone.end() && known->second.dim() > 0;
    });
    return {all.empty() ? "" : all.front().name, tensor == all.end() ? "" : tensor->name};
}

TEST(PlantedUses, EachIsFoundAndItsCellIsRightWithoutIt) {
    std::map<int, Named> references;  // of one rank, by the number of steps
    for (const Misuse& misuse : misuses()) {
        World world = misuse.world;
        Named& alone = references[world.steps];
        if (alone.empty())
            alone = train({.config = world.config,
                           .schedule = plan::gpipe(1, 1, kMicrobatches),
                           .steps = world.steps});
        EXPECT_EQ(first_of(world, alone), std::pair(std::string(), std::string())) << misuse.name;
        misuse.plant(world);
        const auto [quantity, tensor] = first_of(world, alone);
        std::printf("%s: %s, %s\n", misuse.name, quantity.c_str(), tensor.c_str());
        EXPECT_TRUE(quantity.starts_with(misuse.quantity)) << misuse.name << ": " << quantity;
        EXPECT_NE(quantity, "") << misuse.name;
        EXPECT_NE(tensor.find(misuse.tensor), std::string::npos) << misuse.name << ": " << tensor;
    }
}

}  // namespace
}  // namespace roll::train
