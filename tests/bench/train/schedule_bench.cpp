// Runs pipeline schedules on four processes whose stages sleep for their cost, with the trainer's
// executor over Gloo. Prints one JSON line for each schedule: the idle time that the plan's
// simulation gives and the measured one, in units of a micro-batch's forward on one rank.
//
//   schedule_bench [UNIT_MS]     (default 40)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tests/temporary_folder.hpp"
#include "tests/worker/train/processes.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/plan/pipeline_check.hpp"
#include "worker/train/comm/gloo_fabric.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kRanks = 4, kMicrobatches = 8, kRounds = 3;

// Sleeps for the costs of ops. A sleep that takes too long makes the next ones shorter.
class Sleeper {
  public:
    void sleep(double seconds) {
        const auto begin = Clock::now();
        debt_ += seconds;
        if (debt_ > 0) std::this_thread::sleep_for(Seconds(debt_));
        debt_ -= Seconds(Clock::now() - begin).count();
    }

  private:
    double debt_ = 0;
};

// The links between the stages. A rank computes an op after it has received the op's input.
class SleepingLinks : public Communicator {
  public:
    SleepingLinks(Communicator& inner, const plan::PipelineSchedule& schedule, double unit)
        : inner_(inner),
          schedule_(schedule),
          cost_(unit / schedule.vp) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    Ticket issue(const Transfer& transfer) override {
        const Ticket ticket = inner_.issue(transfer);
        if (transfer.kind == Transfer::Kind::Receive) receives_.insert(ticket);
        return ticket;
    }
    void wait(Ticket ticket) override {
        inner_.wait(ticket);
        if (receives_.erase(ticket) > 0) sleeper_.sleep(due_);
    }

    // Begins op number `next_` of the rank, which is `op`.
    void begin(const plan::Op& op) {
        const std::vector<plan::Op>& ops = schedule_.ranks[static_cast<std::size_t>(rank())];
        const int stage = schedule_.stage(rank(), op.chunk);
        const bool is_forward = op.kind == plan::OpKind::Forward;
        const int from = is_forward ? stage - 1 : stage + 1;
        const bool has_input = op.kind != plan::OpKind::BackwardWeight && from >= 0 &&
                               from < schedule_.stages() && schedule_.home(from).rank != rank();
        // The executor runs both halves of such a backward in the first of the two ops.
        const bool is_whole =
            op.kind == plan::OpKind::BackwardInput && plan::halves_together(ops, next_, stage > 0);
        due_ = std::exchange(is_done_, is_whole) ? 0 : cost_ * (is_whole ? 2 : 1);
        ++next_;
        if (!has_input) sleeper_.sleep(due_);
    }

  private:
    Communicator& inner_;
    const plan::PipelineSchedule& schedule_;
    double cost_, due_ = 0;
    std::size_t next_ = 0;
    bool is_done_ = false;  // true: the previous op did the work of this one
    std::set<Ticket> receives_;
    Sleeper sleeper_;
};

// Returns the seconds from the first rank's begin to the last rank's end of a step.
double step_seconds(TrainStep& step, Communicator& world, double unit) {
    const std::vector<Microbatch> batch = tiny_batch(1, kMicrobatches);
    const std::vector<LossRule> rules(batch.size(), LossRule{.scale = 1});
    std::vector<RankChunk> chunks;
    for (Chunk& chunk : step.chunks()) {
        chunk.begin_step();
        chunks.push_back({chunk, [](int) {}});
    }
    StepTrace trace;
    SleepingLinks links(world, step.schedule(), unit);
    barrier(world);
    const at::Tensor times = at::zeros({2}, at::kDouble);
    times[0] = -Seconds(Clock::now().time_since_epoch()).count();
    execute(step.schedule(), chunks, {.microbatches = batch, .rules = rules}, links, trace,
            [&](const plan::Op& op) { links.begin(op); });
    times[1] = Seconds(Clock::now().time_since_epoch()).count();
    world.wait(world.all_reduce(times, Reduce::Max, {Site::Agreement}));
    return times.sum().item<double>();
}

void measure(const plan::PipelineSchedule& schedule, int rank, Communicator& world, double unit) {
    const c10::InferenceMode no_autograd;
    spec::ModelConfig config = tiny_model(false);
    config.layers = 16;
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    TrainStep step(config, schedule, {world, self}, {});
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round)
        seconds.push_back(step_seconds(step, world, unit));
    if (rank > 0) return;
    std::ranges::sort(seconds);
    const plan::ScheduleReport report = plan::check(schedule).value();
    const double work = 3 * kMicrobatches;
    std::printf("{\"schedule\": \"%s\", \"vpp\": %d, \"simulated\": %.3f, \"measured\": %.3f}\n",
                schedule.name.c_str(), schedule.vp, report.makespan / schedule.vp - work,
                seconds[kRounds / 2] / unit - work);
    std::fflush(stdout);
}

int run(double unit) {
    const TemporaryFolder folder;
    const std::vector<int> statuses = run_processes(kRanks, [&](int rank) {
        at::set_num_threads(1);
        GlooFabric fabric({.rendezvous_file = folder / "rendezvous",
                           .nonce = "1",
                           .prefix = "schedules",
                           .rank = rank});
        const auto world = fabric.group("world", {0, 1, 2, 3});
        for (const plan::PipelineSchedule& schedule :
             {plan::one_forward_one_backward(kRanks, kMicrobatches),
              plan::interleaved(kRanks, 2, kMicrobatches),
              plan::interleaved(kRanks, 4, kMicrobatches),
              plan::zero_bubble_h1(kRanks, kMicrobatches),
              plan::zero_bubble_v(kRanks, kMicrobatches)})
            measure(schedule, rank, *world, unit);
        return 0;
    });
    return std::ranges::max(statuses);
}

}  // namespace
}  // namespace roll::train

int main(int argc, char** argv) {
    const double unit_ms = argc > 1 ? std::atof(argv[1]) : 40;
    return roll::train::run(unit_ms / 1e3);
}
