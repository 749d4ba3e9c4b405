#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "worker/train/model/saved_store.hpp"

namespace roll::train {
namespace {

// A store in host memory. On a GPU, all copies run in order on one stream, and events order the
// copies and the computation. Host memory is never freed, because the next step needs as much.
class HostStore final : public SavedStore, public std::enable_shared_from_this<HostStore> {
  public:
    HostStore(at::Device device, HostMemory host_memory, std::int64_t least)
        : SavedStore(device, least),
          host_memory_(std::move(host_memory)),
          guard_(device.type()) {
        if (device.is_cuda()) stream_ = guard_.getStreamFromGlobalPool(device, false);
        options_ = at::TensorOptions(at::kByte).device(device);
    }

    std::unique_ptr<KeptBytes> keep(const at::Tensor& bytes_N) override;

    // Returns a copy of host_N in new memory of the device. wait_for() must be called before the
    // computation uses the copy.
    at::Tensor copy_back(const at::Tensor& host_N, std::optional<c10::Event>& done);
    void wait_for(const at::Tensor& bytes_N, c10::Event& done) const;
    void free(at::Tensor block_N, std::int64_t bytes);

  private:
    c10::Stream computation() const { return guard_.getStream(options_.device()); }
    at::Tensor place_for(std::int64_t bytes);

    HostMemory host_memory_;
    c10::impl::VirtualGuardImpl guard_;
    std::optional<c10::Stream> stream_;  // stream of the copies; nullopt on a CPU
    at::TensorOptions options_;
    std::multimap<std::int64_t, at::Tensor> free_;  // unused host memory by its size
};

class InHost final : public KeptBytes {
  public:
    // The copy is the first `bytes` bytes of block_N.
    InHost(std::shared_ptr<HostStore> store, at::Tensor block_N, std::int64_t bytes)
        : store_(std::move(store)),
          block_N_(std::move(block_N)),
          bytes_(bytes) {}
    ~InHost() override { store_->free(std::move(block_N_), bytes_); }
    InHost(const InHost&) = delete;
    InHost& operator=(const InHost&) = delete;

    void fetch() override {
        if (!back_N_.defined()) back_N_ = store_->copy_back(block_N_.narrow(0, 0, bytes_), done_);
    }

    at::Tensor take() override {
        fetch();
        if (done_) store_->wait_for(back_N_, *done_);
        return std::exchange(back_N_, {});
    }

  private:
    std::shared_ptr<HostStore> store_;
    at::Tensor block_N_, back_N_;
    std::int64_t bytes_;
    std::optional<c10::Event> done_;
};

// Rounds up to one of eight sizes between two powers of two. The sizes of saved values may change
// from step to step, for example with the lengths of documents. If sizes are rounded, such values
// can reuse the memory of earlier values.
std::int64_t rounded(std::int64_t bytes) {
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    const std::int64_t part = std::max<std::int64_t>(power / 8, 1);
    return (bytes + part - 1) / part * part;
}

at::Tensor HostStore::place_for(std::int64_t bytes) {
    const std::int64_t size = rounded(bytes);
    const auto found = free_.find(size);
    if (found == free_.end()) return host_memory_(size, options_);
    return free_.extract(found).mapped();
}

std::unique_ptr<KeptBytes> HostStore::keep(const at::Tensor& bytes_N) {
    const std::int64_t bytes = bytes_N.numel();
    at::Tensor block_N = place_for(bytes);
    const at::Tensor host_N = block_N.narrow(0, 0, bytes);
    count(bytes);
    if (!stream_) {
        host_N.copy_(bytes_N);
        return std::make_unique<InHost>(shared_from_this(), std::move(block_N), bytes);
    }
    c10::Event computed(options_.device().type());
    computed.record(computation());
    computed.block(*stream_);
    {
        const c10::StreamGuard on_copies(*stream_);
        host_N.copy_(bytes_N, /*non_blocking=*/true);
    }
    // makes the allocator wait for the copy before it reuses this memory
    bytes_N.record_stream(*stream_);
    return std::make_unique<InHost>(shared_from_this(), std::move(block_N), bytes);
}

at::Tensor HostStore::copy_back(const at::Tensor& host_N, std::optional<c10::Event>& done) {
    std::optional<c10::StreamGuard> on_copies;
    if (stream_) on_copies.emplace(*stream_);
    at::Tensor bytes_N = at::empty({host_N.numel()}, options_);
    bytes_N.copy_(host_N, /*non_blocking=*/stream_.has_value());
    if (stream_) {
        done.emplace(options_.device().type());
        done->record(*stream_);
    }
    return bytes_N;
}

void HostStore::wait_for(const at::Tensor& bytes_N, c10::Event& done) const {
    done.block(computation());
    // makes the allocator wait for the computation, too, because this memory belongs to the stream
    // of the copies
    bytes_N.record_stream(computation());
}

void HostStore::free(at::Tensor block_N, std::int64_t bytes) {
    count(-bytes);
    const std::int64_t size = block_N.numel();
    free_.emplace(size, std::move(block_N));
}

}  // namespace

std::shared_ptr<SavedStore> host_store(at::Device device, HostMemory host_memory,
                                       std::int64_t least) {
    return std::make_shared<HostStore>(device, std::move(host_memory), least);
}

}  // namespace roll::train
