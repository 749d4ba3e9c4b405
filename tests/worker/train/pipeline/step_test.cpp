// Tests the training step: which settings must not change its results, in which order it works,
// and how it handles a loss that is not finite.
#include <algorithm>
#include <random>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/temporary_folder.hpp"
#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/notes.hpp"
#include "tests/worker/train/processes.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/pipeline_check.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

constexpr int kMicrobatchesOfStep = 8;

TrainOptions fp64_options() {
    return {.init = {.std = 0.2, .dtype = at::kDouble}, .bucket_numel = 2000};
}

// Runs ten steps of one replica and returns its final state.
Named train_replica(Communicator& dp, const TrainOptions& options, bool tied) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const int microbatches = kMicrobatchesOfStep / dp.size();
    const auto schedule = plan::one_forward_one_backward(1, microbatches);
    TrainStep trainer(tiny_model(tied), schedule, {self, dp}, options);
    Named seen;
    for (int step = 0; step < 10; ++step) {
        const auto batch = tiny_batch(step, kMicrobatchesOfStep);
        const StepResult result =
            trainer.run(std::span(batch).subspan(dp.rank() * microbatches, microbatches), 1e-2);
        seen["loss." + std::to_string(step)] = at::scalar_tensor(result.loss, at::kDouble);
        seen["norm." + std::to_string(step)] = at::scalar_tensor(result.grad_norm, at::kDouble);
        note(seen, std::to_string(step) + ".", trainer);
    }
    return seen;
}

Named train_alone(const TrainOptions& options, bool tied) {
    LocalGroup group(1);
    LocalCommunicator self(group, 0);
    return train_replica(self, options, tied);
}

double worst(const Named& seen, const Named& reference) {
    double result = seen.size() == reference.size() ? 0 : INFINITY;
    for (const auto& [name, tensor] : reference)
        result = std::max(result, error(seen.at(name), tensor));
    return result;
}

// This must be the first test, because it forks, which requires a process without threads.
TEST(Step, TwoGlooProcessesTrainAsOneRankDoes) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(2, [&](int rank) {
        at::set_num_threads(1);
        GlooFabric fabric({.rendezvous_file = folder / "rendezvous",
                           .nonce = "n",
                           .prefix = "1/1-1",
                           .rank = rank,
                           .connect_timeout = std::chrono::seconds(120)});
        const auto dp = fabric.group("dp", {0, 1});
        const Named reference = train_alone(fp64_options(), true);
        const bool equal = worst(train_replica(*dp, fp64_options(), true), reference) <= 1e-10;
        barrier(*dp);
        return equal ? 0 : 1;
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

// Counts the bytes that the ranks of a group contribute to sums.
class CountingCommunicator final : public Communicator {
  public:
    CountingCommunicator(Communicator& inner, std::size_t& bytes) : inner_(inner), bytes_(bytes) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    Ticket issue(const Transfer& transfer) override {
        if (transfer.kind == Transfer::Kind::AllReduce) bytes_ += transfer.in.nbytes();
        return inner_.issue(transfer);
    }
    void wait(Ticket ticket) override { inner_.wait(ticket); }

  private:
    Communicator& inner_;
    std::size_t& bytes_;
};

// Trains two replicas and returns their state. Sets `bytes` to what one replica contributed to
// sums.
Named train_two_replicas(const TrainOptions& options, bool tied, std::size_t* bytes = nullptr) {
    LocalGroup group(2);
    Named seen;
    std::size_t summed[2] = {};
    std::vector<std::thread> replicas;
    for (int rank = 0; rank < 2; ++rank) {
        replicas.emplace_back([&, rank] {
            at::set_num_threads(1);
            LocalCommunicator dp(group, rank);
            CountingCommunicator counting(dp, summed[rank]);
            Named mine = train_replica(counting, options, tied);
            if (rank == 1) seen = std::move(mine);
        });
    }
    for (std::thread& replica : replicas) replica.join();
    if (bytes != nullptr) *bytes = summed[1];
    return seen;
}

TEST(Step, TwoReplicasTrainAsOneDoesWithEitherLoss) {
    for (const auto normalize : {spec::Normalize::Step, spec::Normalize::Microbatch}) {
        TrainOptions options = fp64_options();
        options.normalize = normalize;
        EXPECT_LE(worst(train_two_replicas(options, false), train_alone(options, false)), 1e-10);
    }
}

// Freezes parameters in the middle, at an end and scattered, with small buckets and with one.
TEST(Step, GradientsOfFrozenParametersAreNotSummed) {
    constexpr std::size_t kMeasured = 10;
    const std::vector<std::string> globs[] = {
        {"decoder.layers.[12].*"}, {"embedding.*", "*norm*"}, {"*linear_fc1.weight", "output*"}};
    for (const std::vector<std::string>& freeze : globs) {
        for (const std::int64_t bucket_numel : {2000, 1 << 20}) {
            TrainOptions options = fp64_options();
            options.bucket_numel = bucket_numel;
            std::size_t all = 0, without = 0;
            train_two_replicas(options, true, &all);
            options.init.freeze = freeze;
            const Parameters p = make_parameters(
                parameter_specs(tiny_model(true), whole_chunk(tiny_model(true))), options.init);
            const auto frozen =
                static_cast<std::size_t>(p.flat_grad.numel() - trainable_numel(p.specs));
            ASSERT_GT(frozen, 0U);
            EXPECT_LE(
                worst(train_two_replicas(options, true, &without), train_alone(options, true)),
                1e-10);
            EXPECT_EQ(all - without, kMeasured * frozen * sizeof(double));
        }
    }
}

// Shows that the test above is meaningful: the mean of means and the mean over all targets differ
// if micro-batches have different numbers of targets.
TEST(Step, TheMeanOfMeansIsAnotherLoss) {
    TrainOptions options = fp64_options();
    const at::Tensor mean = train_alone(options, false).at("loss.0");
    options.normalize = spec::Normalize::Microbatch;
    EXPECT_GT(error(train_alone(options, false).at("loss.0"), mean), 1e-4);
}

// Runs one step of the schedule `ops` and returns its gradients and its loss.
Named one_step(const std::vector<plan::Op>& ops, bool tied, at::ScalarType dtype) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule{1, 1, 6, {ops}};
    EXPECT_TRUE(plan::check(schedule));
    TrainStep trainer(tiny_model(tied), schedule, {self, self},
                      {.init = {.std = 0.2, .dtype = dtype}});
    const auto batch = tiny_batch(0, 6);
    Named seen;
    seen["loss"] = at::scalar_tensor(trainer.run(batch, 1e-2).loss, at::kDouble);
    note(seen, "", trainer);
    return seen;
}

// Returns a random order of operations in which each micro-batch's three operations keep their
// sequence.
std::vector<plan::Op> shuffled_table(int microbatches, std::uint32_t seed) {
    std::vector<int> turns;
    for (int i = 0; i < 3 * microbatches; ++i) turns.push_back(i / 3);
    std::shuffle(turns.begin(), turns.end(), std::mt19937(seed));
    std::vector<int> done(microbatches);
    std::vector<plan::Op> ops;
    for (const int microbatch : turns)
        ops.push_back({static_cast<plan::OpKind>(done[microbatch]++), 0, microbatch});
    return ops;
}

TEST(Step, AShuffledTableGivesTheSameBits) {
    for (const bool tied : {false, true}) {
        for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
            const Named reference =
                one_step(plan::one_forward_one_backward(1, 6).ranks[0], tied, dtype);
            for (std::uint32_t seed = 0; seed < 20; ++seed) {
                const Named seen = one_step(shuffled_table(6, seed), tied, dtype);
                for (const auto& [name, tensor] : reference)
                    EXPECT_TRUE(seen.at(name).equal(tensor)) << name << " seed " << seed;
            }
        }
    }
}

// The gradients' memory holds other data before the step writes the gradients.
TEST(Step, WhatTheGradientsHeldBeforeDoesNotMatter) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, 2);
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        const auto two_steps = [&](double before) {
            TrainStep trainer(tiny_model(true), schedule, {self, self},
                              {.init = {.std = 0.2, .dtype = dtype}});
            for (int step = 0; step < 2; ++step) {
                trainer.chunks()[0].parameters().flat_grad.fill_(before);
                EXPECT_TRUE(trainer.run(tiny_batch(step, 2), 1e-2).updated);
            }
            Named seen;
            note(seen, "", trainer);
            return seen;
        };
        const Named reference = two_steps(0), seen = two_steps(NAN);
        for (const auto& [name, tensor] : reference)
            EXPECT_TRUE(seen.at(name).equal(tensor)) << name;
    }
}

TEST(Step, TheFirstMicrobatchAloneSavesWhereGradientsWillBe) {
    const c10::InferenceMode no_autograd;
    const spec::ModelConfig config = tiny_model(false);
    const auto writes = [&](int microbatch, std::vector<std::string> freeze) {
        Chunk chunk(config, whole_chunk(config), {.freeze = std::move(freeze)});
        const auto batch = tiny_batch(0, 2);
        chunk.forward(microbatch, batch[0], {}, {.scale = 1}, [](int) {});
        const Parameters& p = chunk.parameters();
        std::vector<bool> written;
        for (std::size_t i = 0; i < p.specs.size(); ++i)
            if (p.specs[i].name.ends_with("linear_fc1.weight"))
                written.push_back(p.grad[i].any().item<bool>());
        return written;
    };
    EXPECT_EQ(writes(0, {}), (std::vector<bool>{true, true, true, false}));
    EXPECT_EQ(writes(1, {}), std::vector<bool>(4, false));
    EXPECT_EQ(writes(0, {"*layer_norm_weight"}), std::vector<bool>(4, false));
}

std::ptrdiff_t buckets_of(const TrainStep& trainer) {
    return std::count_if(trainer.trace().begin(), trainer.trace().end(), [](const TraceEvent& e) {
        return e.kind == TraceEvent::Kind::ReductionIssued;
    });
}

TEST(Step, ReductionsBeginBeforeTheLastBackward) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, 2);
    TrainStep trainer(tiny_model(false), schedule, {self, self}, {});
    trainer.run(tiny_batch(0, 2), 1e-3);
    const StepTrace& trace = trainer.trace();
    const auto issued = [](const TraceEvent& e) {
        return e.kind == TraceEvent::Kind::ReductionIssued;
    };
    EXPECT_GE(buckets_of(trainer), 4);
    const auto first = std::find_if(trace.begin(), trace.end(), issued);
    const auto last_backward = std::find_if(trace.rbegin(), trace.rend(), [](const TraceEvent& e) {
        return e.kind == TraceEvent::Kind::OpDone && e.op.kind != plan::OpKind::Forward;
    });
    EXPECT_LT(first - trace.begin(), trace.rend() - last_backward - 1);
    const auto input_half = std::find_if(trace.rbegin(), trace.rend(), [](const TraceEvent& e) {
        return e.kind == TraceEvent::Kind::OpDone && e.op.kind == plan::OpKind::BackwardInput;
    });
    EXPECT_LT(first - trace.begin(), trace.rend() - input_half - 1) << "within the last backward";
}

// A group with a simulated second replica that holds zeros. Records the number of gradient
// reductions in flight at each wait.
class NotingNetwork final : public Communicator {
  public:
    int rank() const override { return 0; }
    int size() const override { return 2; }
    Ticket issue(const Transfer& transfer) override {
        of_gradients_.push_back(transfer.tag.site == Site::Bucket);
        return static_cast<Ticket>(of_gradients_.size()) - 1;
    }
    void wait(Ticket ticket) override {
        if (of_gradients_[static_cast<std::size_t>(ticket)])
            under_way_.push_back(std::count(of_gradients_.begin(), of_gradients_.end(), true));
    }
    const std::vector<std::ptrdiff_t>& under_way() const { return under_way_; }

  private:
    std::vector<bool> of_gradients_;
    std::vector<std::ptrdiff_t> under_way_;
};

// Every bucket is issued before the first wait. So a network that reduces one bucket while the next
// is computed costs the step only one bucket.
TEST(Step, ASlowNetworkCostsItOneBucketAtMost) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    NotingNetwork dp;
    const auto schedule = plan::one_forward_one_backward(1, 2);
    TrainStep trainer(tiny_model(false), schedule, {self, dp}, {});
    trainer.run(tiny_batch(0, 2), 1e-3);
    const std::ptrdiff_t buckets = buckets_of(trainer);
    EXPECT_GE(buckets, 4);
    EXPECT_EQ(dp.under_way(), std::vector<std::ptrdiff_t>(buckets, buckets));
}

TEST(Step, LeavesTheWeightsAloneWhenTheLossIsNoNumber) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, 1);
    TrainStep trainer(tiny_model(false), schedule, {self, self}, {});
    Parameters& p = trainer.chunks()[0].parameters();
    p.weight[3][0][0] = NAN;
    const at::Tensor before = p.flat_weight.clone();
    const StepResult result = trainer.run(tiny_batch(0, 1), 1e-3);
    EXPECT_FALSE(result.updated);
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_TRUE(p.flat_weight.equal(before) || at::allclose(p.flat_weight, before, 0, 0, true));
    EXPECT_EQ(trainer.optimizers()[0].state().steps, 0);
}

TEST(Step, EvaluatesTheLossThatItTrains) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const auto schedule = plan::one_forward_one_backward(1, 4);
    TrainStep trainer(tiny_model(false), schedule, {self, self}, fp64_options());
    const auto batch = tiny_batch(3, 4);
    const LossSum sum = trainer.evaluate(batch);
    const StepResult result = trainer.run(batch, 1e-3);
    EXPECT_EQ(sum.tokens, result.tokens);
    EXPECT_NEAR(sum.loss / static_cast<double>(sum.tokens), result.loss, 1e-12);
}

}  // namespace
}  // namespace roll::train
