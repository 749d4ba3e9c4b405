// Runs functions that read files on separate threads, because a volume that hangs must not block
// rolld's loop. The number of threads, the number of waiting functions and the time until an answer
// are limited. Each volume has its own limits, so that a volume that hangs does not delay reads of
// other volumes.
//
// All members are called on the thread of the context.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::files {

struct ReadersLimits {
    std::size_t threads = 16;
    std::size_t waiting = 64;
    std::size_t threads_of_volume = 4;
    std::size_t waiting_of_volume = 32;
    std::chrono::milliseconds patience{4'000};
};

// Returns the mount point of the volume that holds `path`, without access to the volume. Does not
// follow links.
std::string volume_of(const std::string& path);

class Readers {
  public:
    using Read = std::function<Result<Json>()>;
    using Answer = std::function<void(Result<Json>)>;

    explicit Readers(boost::asio::io_context& io, ReadersLimits limits = {});
    // A thread that still reads continues, but its result is dropped.
    ~Readers();
    Readers(const Readers&) = delete;
    Readers& operator=(const Readers&) = delete;

    // Calls `read` on a separate thread, and then `answer` with the result on the thread of the
    // context. Calls `answer` with an error if there is no result in time, or at once if too many
    // reads wait. `what` is the path that is read.
    void start(std::string what, Read read, Answer answer);

  private:
    struct Waiting {
        std::string what;
        std::string volume;
        Answer answer;
        std::chrono::steady_clock::time_point until;
    };
    struct Home;

    void take(std::uint64_t id, Result<Json> result);
    void expire();
    void arm();

    ReadersLimits limits_;
    boost::asio::steady_timer timer_;
    std::shared_ptr<Home> home_;
    std::map<std::uint64_t, Waiting> waiting_{};  // reads, in order of arrival
    std::uint64_t last_id_ = 0;
};

}  // namespace roll::files
