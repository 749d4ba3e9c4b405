// Tests that updated weights which are still being gathered from other ranks (ZeRO-1 and ZeRO-2)
// are awaited before anything reads them.
#include <chrono>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/temporary_folder.hpp"
#include "tests/worker/train/pipeline/world.hpp"
#include "tests/worker/train/processes.hpp"
#include "worker/plan/mesh.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/model/generate.hpp"

namespace roll::train {
namespace {

using Clock = std::chrono::steady_clock;

bool is_gather(const Transfer& transfer) {
    return transfer.kind == Transfer::Kind::AllGather && transfer.tag.site == Site::Weights;
}

// The gathers of one rank, and when they ended.
struct Noted {
    Clock::time_point forward{};  // beginning of the latest step's forward
    std::int64_t bytes = 0;       // of all gathers that were awaited in a step
    std::int64_t in_forward = 0;  // of those whose wait ended after forward had begun
};

// Passes transfers on. Notes the gathers of weights, and omits the wait for one of them.
class Gathers final : public Communicator {
  public:
    // `forgotten`: the bucket whose gather is not awaited; -1: none
    Gathers(std::unique_ptr<Communicator> inner, Noted& noted, int forgotten = -1)
        : inner_(std::move(inner)),
          noted_(noted),
          forgotten_(forgotten) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }
    Ticket issue(const Transfer& transfer) override {
        const Ticket ticket = inner_->issue(transfer);
        if (is_gather(transfer)) running_.emplace(ticket, transfer);
        return ticket;
    }
    void wait(Ticket ticket) override {
        const auto gather = running_.find(ticket);
        if (gather == running_.end()) return inner_->wait(ticket);
        const Transfer transfer = running_.extract(gather).mapped();
        if (transfer.tag.layer == forgotten_) return;
        inner_->wait(ticket);
        const auto bytes = static_cast<std::int64_t>(transfer.out.nbytes());
        noted_.bytes += bytes;
        if (noted_.forward != Clock::time_point{}) noted_.in_forward += bytes;
    }

  private:
    std::unique_ptr<Communicator> inner_;
    Noted& noted_;
    int forgotten_;
    std::map<Ticket, Transfer> running_;
};

// Two replicas, or more ranks, that share optimizer state.
struct Shared {
    plan::PipelineSchedule schedule = plan::gpipe(1, 1, 2);
    int zero = 1;
    bool tied = true;
    int tp = 1;
    int forgotten = -1;
    std::uint64_t seed = 0;
};

using Visit = std::function<void(TrainStep& step, const Groups& groups)>;

// Calls visit() on every rank, on the thread of the rank.
void on_ranks(const Shared& shared, const Visit& visit) {
    const int dp = 2, tp = shared.tp, pp = shared.schedule.pp, size = dp * tp * pp;
    const plan::Mesh mesh = plan::Mesh::make({.dp = dp, .tp = tp, .pp = pp}, size).value();
    const spec::ModelConfig model = tp > 1 ? split_model(shared.tied) : world_model(shared.tied);
    LocalFabric fabric(size, {.seed = shared.seed});
    fabric.run([&](int rank) {
        at::set_num_threads(1);
        const c10::InferenceMode no_autograd;
        const auto group = [&](const std::string& name, const std::vector<int>& ranks) {
            return fabric.group(name + std::to_string(ranks.front()), ranks, rank);
        };
        const std::vector<int> stages = mesh.group(rank, plan::Axis::Pp);
        Noted noted;
        Gathers replicas(group("dp", mesh.group(rank, plan::Axis::Dp)), noted, shared.forgotten);
        const auto pipeline = group("pp", stages);
        const auto tensors = group("tp", mesh.group(rank, plan::Axis::Tp));
        const bool at_end = rank == stages.front() || rank == stages.back();
        const bool has_tie = shared.tied && pp > 1 && at_end;
        const auto tie = has_tie ? group("tie", {stages.front(), stages.back()}) : nullptr;
        const auto world = fabric.world(rank);
        const Groups groups{.pp = *pipeline,
                            .dp = replicas,
                            .tie = tie.get(),
                            .tp = tensors.get(),
                            .world = world.get()};
        TrainStep step(model, shared.schedule, groups,
                       {.init = {.std = 0.2, .dtype = at::kDouble},
                        .optimizer = {.decays = {}, .ema = {.decay = 0.5}},
                        .zero = shared.zero,
                        .bucket_numel = 2000});
        visit(step, groups);
    });
}

std::vector<Microbatch> own_batch(int number, const TrainStep& step) {
    const int own = step.schedule().microbatches, rank = step.groups().dp.rank();
    std::vector<Microbatch> all = tiny_batch(number, 2 * own);
    return {all.begin() + rank * own, all.begin() + (rank + 1) * own};
}

void append(std::vector<double>& values, const at::Tensor& tensor) {
    const at::Tensor flat = tensor.to(at::kDouble).flatten().contiguous();
    const auto* const first = flat.const_data_ptr<double>();
    values.insert(values.end(), first, first + flat.numel());
}

// Something that uses weights after a step.
struct Reader {
    const char* name;
    std::function<void(TrainStep& step, std::vector<double>& seen)> read;
};

void read_weights(TrainStep& step, std::vector<double>& seen) {
    for (Chunk& chunk : step.chunks()) append(seen, chunk.parameters().flat_weight);
}

void read_log_probs(TrainStep& step, std::vector<double>& seen) {
    std::vector<Microbatch> batch = own_batch(7, step);
    for (Microbatch& data : batch) {
        data.tokens_BT = data.tokens_BT.view({1, -1});
        data.targets_BT = data.targets_BT.view({1, -1});
        data.segments = {0, 11};
    }
    append(seen, step.log_probs(batch));
}

std::vector<Reader> readers() {
    return {
        {"the chunks", read_weights},
        {"an evaluation",
         [](TrainStep& step, std::vector<double>& seen) {
             seen.push_back(step.evaluate(own_batch(7, step)).loss);
         }},
        {"log-probabilities", read_log_probs},
        {"the average of the weights",
         [](TrainStep& step, std::vector<double>& seen) {
             step.swap_average();
             read_weights(step, seen);
             step.swap_average();
             read_weights(step, seen);
         }},
        {"log-probabilities of the average, which one replica computes",
         [](TrainStep& step, std::vector<double>& seen) {
             step.swap_average();
             if (step.groups().dp.rank() == 0 || step.shares_weights()) read_log_probs(step, seen);
             barrier(step.groups().dp);
             step.swap_average();
         }},
        {"a text that one replica generates",
         [](TrainStep& step, std::vector<double>& seen) {
             const TextModel model = text_model(step);
             if (step.groups().dp.rank() > 0 && !step.shares_weights()) return;
             for (const std::int64_t token : generate(model, {3, 14, 15}, {.max_tokens = 8}))
                 seen.push_back(static_cast<double>(token));
         }},
        {"further steps",
         [](TrainStep& step, std::vector<double>& seen) {
             for (int i = 2; i < 4; ++i) {
                 const StepResult result = step.run(own_batch(i, step), 1e-2);
                 seen.push_back(result.loss);
                 seen.push_back(result.grad_norm);
             }
             read_weights(step, seen);
         }},
    };
}

// For each reader, what each rank reads.
using Readings = std::vector<std::map<int, std::vector<double>>>;

// Trains two steps. Then all readers read, one after the other. `settles`: all weights are awaited
// after each step.
Readings read_after_steps(const Shared& shared, const std::vector<Reader>& all, bool settles) {
    Readings seen(all.size());  // needs no lock, because one rank runs at a time
    on_ranks(shared, [&](TrainStep& step, const Groups& groups) {
        for (int i = 0; i < 2; ++i) {
            step.run(own_batch(i, step), 1e-2);
            if (settles) step.await_weights();
        }
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i].read(step, seen[i][groups.world->rank()]);
    });
    return seen;
}

// This must be the first test, because it forks, which requires a process without threads. Each
// rank writes the number of bytes that it gathered and of those that arrived while forward ran.
TEST(Gathers, OfTwoProcessesEndWhileTheNextForwardRuns) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(2, [&](int rank) {
        at::set_num_threads(1);
        GlooFabric fabric({.rendezvous_file = folder / "rendezvous",
                           .nonce = "n",
                           .prefix = "1/1-1",
                           .rank = rank,
                           .connect_timeout = std::chrono::seconds(120)});
        Noted noted;
        Gathers dp(fabric.group("dp", {0, 1}), noted);
        LocalGroup alone(1);
        LocalCommunicator self(alone, 0);
        const auto at_phase = [&](spec::FaultPhase phase) {
            if (phase == spec::FaultPhase::Forward) noted.forward = Clock::now();
        };
        const plan::PipelineSchedule schedule = plan::gpipe(1, 1, 2);
        TrainStep step(world_model(false), schedule, {.pp = self, .dp = dp, .at_phase = at_phase},
                       {.init = {.dtype = at::kFloat}, .zero = 1});
        for (int i = 0; i < 5; ++i) {
            noted.forward = {};
            step.run(own_batch(i, step), 1e-2);
        }
        std::ofstream(folder / std::to_string(rank)) << noted.bytes << ' ' << noted.in_forward;
        barrier(dp);
        return 0;
    });
    EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
    for (const char* const rank : {"0", "1"}) {
        std::int64_t bytes = 0, in_forward = 0;
        std::ifstream(folder / rank) >> bytes >> in_forward;
        EXPECT_GT(bytes, 0);
        EXPECT_EQ(in_forward, bytes);
    }
}

TEST(Gathers, EveryReaderGetsTheUpdatedWeights) {
    std::vector<Shared> cells;
    for (const int zero : {1, 2, 3})
        for (const bool tied : {true, false}) {
            cells.push_back({plan::gpipe(1, 1, 2), zero, tied});
            cells.push_back({plan::interleaved(2, 2, 2), zero, tied});
            cells.push_back({plan::zero_bubble_v(2, 4), zero, tied});
        }
    for (const int zero : {1, 2}) {
        cells.push_back({plan::gpipe(1, 1, 2), zero, true, 2});
        cells.push_back({plan::one_forward_one_backward(2, 2), zero, false, 2});
    }
    const std::vector<Reader> all = readers();
    std::uint64_t seed = 0;
    for (Shared& cell : cells) {
        cell.seed = ++seed;
        const Readings settled = read_after_steps(cell, all, true);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const bool several = cell.schedule.pp > 1;
            cell.seed = ++seed;
            const auto seen = read_after_steps(cell, {all[i]}, false).front();
            EXPECT_EQ(seen, settled[i])
                << all[i].name << ", zero " << cell.zero << ", tied " << cell.tied << ", stages "
                << several << ", tp " << cell.tp;
        }
    }
}

TEST(Gathers, AForgottenWaitForOneBucketIsFound) {
    const std::vector<Reader> steps{readers().back()};
    for (Shared cell : {Shared{}, Shared{.tp = 2}, Shared{.zero = 2, .tp = 2}}) {
        SCOPED_TRACE("zero " + std::to_string(cell.zero) + ", tp " + std::to_string(cell.tp));
        const auto right = read_after_steps(cell, steps, true);
        int buckets = 0;
        on_ranks(cell, [&](TrainStep& step, const Groups&) {
            step.run(own_batch(0, step), 1e-2);
            for (const TraceEvent& event : step.trace())
                if (event.kind == TraceEvent::Kind::ReductionIssued)
                    buckets = std::max(buckets, event.bucket + 1);
        });
        EXPECT_GE(buckets, 6);
        for (cell.forgotten = 0; cell.forgotten < buckets; ++cell.forgotten)
            EXPECT_NE(read_after_steps(cell, steps, false), right) << cell.forgotten;
    }
}

// Without the wait in forward, a rank computes with the old weights of the other ranks' rows.
TEST(Gathers, AForwardThatDoesNotWaitUsesOldWeights) {
    on_ranks({}, [&](TrainStep& step, const Groups&) {
        Chunk& chunk = step.chunks()[0];
        step.run(own_batch(0, step), 1e-2);
        chunk.before_use({});
        const double old = step.evaluate(own_batch(7, step)).loss;
        step.await_weights();
        const double right = step.evaluate(own_batch(7, step)).loss;
        EXPECT_TRUE(std::isfinite(old));
        EXPECT_NE(old, right);
    });
}

}  // namespace
}  // namespace roll::train
