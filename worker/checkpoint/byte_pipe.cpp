#include "worker/checkpoint/byte_pipe.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace roll::checkpoint {

void BytePipe::reset() {
    begin_ = used_ = 0;
    flows_ = abandoned_ = stopped_ = false;
}

std::span<std::byte> BytePipe::room(std::size_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_ < capacity() || stopped_; });
    if (stopped_) return {};
    const std::size_t at = (begin_ + used_) % capacity();
    const std::size_t contiguous = std::min(capacity() - used_, capacity() - at);
    return {ring_.data() + at, std::min(most, contiguous)};
}

void BytePipe::commit(std::size_t size) {
    const std::scoped_lock lock(mutex_);
    used_ += size;
    ROLL_CHECK(used_ <= capacity());
    flows_ = flows_ || used_ == capacity();
    if (flows_) changed_.notify_all();
}

void BytePipe::finish() {
    const std::scoped_lock lock(mutex_);
    flows_ = true;
    changed_.notify_all();
}

void BytePipe::abandon() {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
}

std::array<std::span<const std::byte>, 2> BytePipe::await(std::size_t size) {
    ROLL_CHECK(size > 0 && size <= capacity());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return (flows_ && used_ >= size) || abandoned_; });
    if (used_ < size || !flows_) return {};
    const std::size_t first = std::min(size, capacity() - begin_);
    return {std::span<const std::byte>(ring_.data() + begin_, first),
            std::span<const std::byte>(ring_.data(), size - first)};
}

void BytePipe::release(std::size_t size) {
    const std::scoped_lock lock(mutex_);
    ROLL_CHECK(size <= used_);
    begin_ = (begin_ + size) % capacity();
    used_ -= size;
    changed_.notify_all();
}

void BytePipe::stop() {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
}

}  // namespace roll::checkpoint
