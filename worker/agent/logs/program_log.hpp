// A program's log. A job's command writes into a pipe. The log and its directories are created at
// the command's first output. Most commands of a long queue print nothing. For such a command,
// creating three directories and a file on a network volume would take longer than running the
// command.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"

namespace roll::agent {

// Limits the size of a log file while its program keeps appending to it. If `file` exceeds
// `bytes_max`, removes the file's beginning. The newest bytes remain: about half of `bytes_max`.
// Truncates the file to 0 bytes if the volume cannot remove a file's beginning. Returns true if the
// file was cut. `bytes_max` 0 means no limit.
bool cap_log(const std::string& file, std::int64_t bytes_max);

// Opens a log for appending and creates its directories. Fails with InvalidArgument if the name can
// never be a file, and with Unavailable if the volume fails. Fails with Refused if the volume is
// full or read-only, or if permission or quota is missing.
Result<io::Descriptor> open_log(const std::string& file);

// Fails as open_log() does. Does not open a FIFO: without a reader, opening it would wait, and a
// reader would take the close for the end of the output.
Result<void> check_log(const std::string& file);

// Makes the link `link` to a log, and the directories of the link. Does not change an existing
// link.
Result<void> link_log(const std::string& link, const std::string& log);

// Appends a line that begins with "roll-worker: ".
void add_to_log(const std::string& file, const std::string& text);

// Copies a pipe into a log. Copies in a separate thread, so that a hung volume does not delay the
// guard's kill.
class LogPipe {
  public:
    // Makes the pipe. Caps the log with cap_log() before the log exceeds `bytes_max` by more than a
    // quarter; 0 means no limit.
    static Result<std::unique_ptr<LogPipe>> make(std::string file, std::int64_t bytes_max);
    ~LogPipe() { static_cast<void>(finish()); }
    LogPipe(const LogPipe&) = delete;
    LogPipe& operator=(const LogPipe&) = delete;

    // Returns the write end of the pipe, which the program writes to. May be called only once.
    io::Descriptor take_input() { return std::move(input_); }
    // Returns the descriptor to poll for POLLIN; -1 if there is nothing to wait for. Call begin()
    // when the descriptor is readable.
    int waited() const { return waited_; }
    void begin(short revents);
    // Waits until all output is in the log. Requires that no program writes to the pipe any more.
    // If a write to the log has failed, returns the error. After such an error, the program's own
    // writes to the pipe fail, as on a full disk.
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
    io::Descriptor over_{};  // an eventfd that becomes readable when the attempt has ended
    int waited_ = -1;
    Result<void> copied_{};
    std::thread thread_{};
};

// Searches the logs of a failed attempt for the job's patterns (retry.on_log). Returns the indices
// of the patterns that match a line of these files, in ascending order. Reads only the end of each
// file and the beginning of each long line. An invalid pattern matches nothing.
std::vector<int> scan_logs(const std::vector<std::string>& patterns,
                           const std::vector<std::string>& files);

}  // namespace roll::agent
