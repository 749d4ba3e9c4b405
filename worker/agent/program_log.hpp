// A program's log. A command writes into a pipe instead of it: file and folders are made once there
// is something to put there, for most programs of a long queue say nothing, and on a network volume
// three folders and a file cost more than running them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::agent {

// To append to; makes its folders. InvalidArgument: no file of this name can ever be. Unavailable:
// the volume fails. Refused: it is full or read-only, or permission or quota is missing.
Result<io::Descriptor> open_log(const std::string& file);

// A line of roll-worker's own.
void add_to_log(const std::string& file, const std::string& text);

// Carries what comes through a pipe into a log. In a thread of its own, since a volume that hangs
// must not keep a guard from killing in time.
class LogPipe {
  public:
    // Cuts the log as cap_log() does before it is a quarter longer than `bytes_max`; 0: no limit.
    static Result<std::unique_ptr<LogPipe>> make(std::string file, std::int64_t bytes_max);
    ~LogPipe() { static_cast<void>(finish()); }
    LogPipe(const LogPipe&) = delete;
    LogPipe& operator=(const LogPipe&) = delete;

    // The program's end, once.
    io::Descriptor take_input() { return std::move(input_); }
    // To wait for (POLLIN), and what to do then; -1: nothing more is to be waited for.
    int waited() const { return waited_; }
    void begin(short revents);
    // Once nobody writes any more: all is in the log, or why it is not. As soon as that is known
    // the program's writes fail, as they would on a full disk.
    Result<void> finish();

  private:
    LogPipe(std::string file, std::int64_t bytes_max, io::Descriptor output, io::Descriptor input)
        : file_(std::move(file)),
          bytes_max_(bytes_max),
          output_(std::move(output)),
          input_(std::move(input)),
          waited_(output_.get()) {}
    Result<void> copy();
    Result<void> copy_into(const io::Descriptor& log);

    std::string file_;
    std::int64_t bytes_max_;
    io::Descriptor output_;
    io::Descriptor input_;
    io::Descriptor over_{};  // an eventfd: nobody of ours writes any more
    int waited_ = -1;
    Result<void> copied_{};
    std::thread thread_{};
};

}  // namespace roll::agent
