// Passes bytes from the training thread to the thread that writes a checkpoint, through a ring
// buffer of limited size. The producer waits while the ring is full. A save therefore takes no host
// memory except the ring. The consumer starts when the ring is full for the first time, or when the
// producer has finished. An earlier start would take processor time from the training thread while
// that thread copies.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>

namespace roll::checkpoint {

// A pipe with one producer and one consumer, each on its own thread.
class BytePipe {
  public:
    // `ring` must outlive this object and must not be empty.
    explicit BytePipe(std::span<std::byte> ring) : ring_(ring) {}

    std::size_t capacity() const { return ring_.size(); }

    // Empties the pipe for the next save. Requires that no thread is using the pipe.
    void reset();

    // Producer: waits for free space and returns 1 to `most` contiguous bytes of it. The producer
    // fills them and calls commit(). Returns an empty span if the consumer has stopped.
    std::span<std::byte> room(std::size_t most);
    void commit(std::size_t size);
    // Producer: announces that no more bytes follow
    void finish();
    // Producer: ends the save early; the consumer gets no more bytes.
    void abandon();

    // Consumer: waits for `size` bytes and returns them in two spans. The second span may be empty.
    // Returns two empty spans if the producer abandoned the save. Requires 0 < size <= capacity().
    std::array<std::span<const std::byte>, 2> await(std::size_t size);
    void release(std::size_t size);  // frees the first `size` bytes of the pipe
    void stop();                     // Consumer: announces that it takes no more bytes

  private:
    std::span<std::byte> ring_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t begin_ = 0;  // index in the ring of the first byte in use
    std::size_t used_ = 0;
    bool flows_ = false;  // true once the consumer has started
    bool abandoned_ = false, stopped_ = false;
};

}  // namespace roll::checkpoint
