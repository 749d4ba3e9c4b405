// The backend of roll-rank-simulated: the rank trains on the simulated device, and its groups
// connect over Gloo. As with NCCL, a rank must take each tensor from the device to send it.
#include <algorithm>
#include <array>
#include <map>

#include <ATen/ATen.h>

#include "tests/worker/train/device/simulated_device.hpp"
#include "worker/train/comm/backend.hpp"

namespace roll::train {
namespace {

// The types that ops/cuda/nccl_communicator.cpp sends
constexpr std::array kTypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong};

// Sends copies of the device's tensors, and copies what arrives to the device.
class StagedCommunicator final : public Communicator {
  public:
    explicit StagedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

    int rank() const override { return inner_->rank(); }
    int size() const override { return inner_->size(); }

    Ticket issue(const Transfer& transfer) override {
        const at::ScalarType type = transfer.payload().scalar_type();
        TORCH_CHECK(std::ranges::find(kTypes, type) != kTypes.end(), "NCCL does not send ", type);
        Transfer staged = transfer;
        if (transfer.in.defined()) staged.in = transfer.in.cpu();
        if (transfer.out.defined())
            staged.out = transfer.out.is_same(transfer.in) ? staged.in : transfer.out.cpu();
        const Ticket ticket = inner_->issue(staged);
        if (transfer.kind != Transfer::Kind::Send)
            running_.emplace(ticket, std::pair(transfer.out, staged.out));
        return ticket;
    }

    void wait(Ticket ticket) override {
        inner_->wait(ticket);
        const auto [out, staged] = running_.extract(ticket).mapped();
        if (!out.is_same(staged)) out.copy_(staged);
    }

  private:
    std::unique_ptr<Communicator> inner_;
    std::map<Ticket, std::pair<at::Tensor, at::Tensor>> running_;
};

}  // namespace

Backend take_backend(const protocol::Launch& /*launch*/, int /*rank*/) {
    return {simulated_device(),
            [](GlooFabric& fabric, const std::string& name, const std::vector<int>& ranks) {
                return std::make_unique<StagedCommunicator>(fabric.group(name, ranks));
            },
            simulated_memory,
            [](std::int64_t size, const at::TensorOptions& options) {
                return at::zeros({size}, options);  // this device has one kind of memory
            }};
}

}  // namespace roll::train
