// Passes bytes from the training thread to the thread that writes a checkpoint, through a ring of
// limited size. The producer waits while the ring is full, so a save holds no more host memory than
// the ring's.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>

namespace roll::checkpoint {

// Has one producer and one consumer, each on its own thread.
class BytePipe {
  public:
    // `ring` must outlive this object and must not be empty.
    explicit BytePipe(std::span<std::byte> ring) : ring_(ring) {}

    std::size_t capacity() const { return ring_.size(); }

    // Empties the pipe for the next save. Requires that neither side uses it.
    void reset();

    // Producer: waits for free space. Returns 1 to `most` contiguous bytes of it, which commit()
    // passes on. Returns no bytes if the consumer has stopped.
    std::span<std::byte> room(std::size_t most);
    void commit(std::size_t size);
    // Producer: gives up. The consumer then gets no more bytes.
    void abandon();

    // Consumer: waits for `size` bytes and returns them in two spans, of which the second may be
    // empty. Returns two empty spans if the producer gave up. Requires 0 < size <= capacity().
    std::array<std::span<const std::byte>, 2> await(std::size_t size);
    void release(std::size_t size);  // frees the first `size` bytes of the pipe
    void stop();                     // Consumer: takes no more bytes

  private:
    std::span<std::byte> ring_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t begin_ = 0;  // place of the first byte in the ring
    std::size_t used_ = 0;
    bool abandoned_ = false, stopped_ = false;
};

}  // namespace roll::checkpoint
