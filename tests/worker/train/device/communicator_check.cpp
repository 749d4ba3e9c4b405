#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "tests/worker/train/device/checks.hpp"
#include "worker/train/comm/local_communicator.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {
namespace {

// A group of one rank that claims to have two, so that training reduces its gradients through it. A
// sum over one rank changes nothing. In a gather, the other rank has the same numbers.
class ClaimsTwo final : public Communicator {
  public:
    explicit ClaimsTwo(Communicator& inner) : inner_(inner) {}
    int rank() const override { return 0; }
    int size() const override { return 2; }
    Ticket issue(const Transfer& transfer) override {
        reductions += transfer.kind == Transfer::Kind::AllReduce ? 1 : 0;
        if (transfer.kind != Transfer::Kind::AllGather) return inner_.issue(transfer);
        transfer.out[1].copy_(transfer.in);
        Transfer own = transfer;
        own.out = transfer.out.narrow(0, 0, 1);
        return inner_.issue(own);
    }
    void wait(Ticket ticket) override { inner_.wait(ticket); }

    int reductions = 0;

  private:
    Communicator& inner_;
};

// Prints 0 if the tensors are bitwise equal, else infinity.
void print_same(const std::string& what, const at::Tensor& found, const at::Tensor& expected) {
    const bool same = found.cpu().equal(expected.cpu());
    print_figure("communicator", what, same ? 0 : std::numeric_limits<double>::infinity(), 0);
}

// Several sums in flight, waited for in another order than issued.
void check_sums(Communicator& group, at::Device device) {
    const Tag tag{Site::Bucket, 1};
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
        std::vector<at::Tensor> parts, expected;
        std::vector<Communicator::Ticket> tickets;
        for (const std::int64_t size : {1, 7, 100'003, 4'000'000}) {
            expected.push_back((at::arange(size, at::kDouble) * 3 + 1).to(type));
            parts.push_back(expected.back().to(device));
            parts.back().add_(1).sub_(1);  // work before the sum on the current stream
            expected.back().add_(1).sub_(1);
            tickets.push_back(group.all_reduce(parts.back(), Reduce::Sum, tag));
        }
        for (std::size_t i = parts.size(); i-- > 0;) {
            group.wait(tickets[i]);
            print_same(std::string("sum of ") + std::to_string(parts[i].numel()) + " " +
                           at::toString(type),
                       parts[i], expected[i]);
        }
    }
}

spec::ModelConfig tiny_config() {
    return {.family = "llama",
            .hidden = 64,
            .layers = 3,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 16,
            .intermediate = 96,
            .vocab = 131,
            .positions_max = 64,
            .tied = true};
}

std::vector<double> losses_with(Communicator& dp, at::Device device) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    const plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 2);
    TrainStep step(tiny_config(), schedule, {self, dp}, {.init = {.device = device}});
    at::manual_seed(3);
    std::vector<Microbatch> batch;
    for (int i = 0; i < 2; ++i) {
        const at::Tensor ids = at::randint(131, {2, 33});
        batch.push_back({ids.narrow(1, 0, 32).contiguous(), ids.narrow(1, 1, 32).contiguous()});
    }
    std::vector<double> losses;
    // The loss is the sum over the ranks, divided by the number of tokens of one rank.
    for (int i = 0; i < 4; ++i) losses.push_back(step.run(batch, 1e-3).loss / dp.size());
    losses.push_back(step.evaluate(batch).loss);
    return losses;
}

void check_training(Communicator& group, at::Device device) {
    LocalGroup alone(1);
    LocalCommunicator self(alone, 0);
    ClaimsTwo two(group);
    const std::vector<double> found = losses_with(two, device),
                              expected = losses_with(self, device);
    double worst = two.reductions > 0 ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::abs(found[i] - expected[i]) / expected[i]);
    // Atomic additions of a GPU's backward passes change the last bits.
    const double limit = device.is_cpu() ? 0 : 1e-5;
    print_figure("communicator", "losses of 4 steps and an evaluation", worst, limit);
}

}  // namespace

void check_communicator(const Backend& backend, const std::string& scratch) {
    GlooFabric fabric({.rendezvous_file = std::filesystem::path(scratch) / "rendezvous",
                       .nonce = "gpu-check",
                       .prefix = "gpu-check"});
    const std::unique_ptr<Communicator> group = backend.group(fabric, "dp", {0}),
                                        tied = backend.group(fabric, "tied embedding", {0});
    print_figure("communicator", "ranks of the group", group->size() - 1, 0);
    check_sums(*group, backend.device);
    const at::Tensor vote = at::full({}, 2.5, at::kDouble);  // on the CPU: joint decisions
    sum_over(*group, vote, {Site::Agreement});
    print_same("sum of a number on the CPU", vote, at::full({}, 2.5, at::kDouble));
    const at::Tensor grad = at::randn({1000}).to(backend.device), copy = grad.clone();
    sum_over(*tied, grad, {Site::TiedGrad});
    print_same("sum in a second group", grad, copy);
    print_same("gathered", gather_over(*group, copy, {Site::Weights}).flatten(), copy);
    barrier(*group);
    check_training(*group, backend.device);
}

}  // namespace roll::train
