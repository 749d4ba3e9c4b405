// The link to roll-worker. The link sends lines on descriptor 3, receives lines on stdin, and
// receives the signal SIGTERM. If descriptor 3 is not open (the rank was started by hand), the link
// writes the lines to stderr.
//
// Construct the link before any file is opened; otherwise, that file could get descriptor 3. Also
// construct the link before any thread starts, because the link blocks SIGTERM and SIGINT, and
// threads inherit the signal mask. The two signals stay pending until poll() is called. Used from
// one thread. report() writes immediately; poll() never blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"

namespace roll::train {

struct Heard {
    bool stop = false;
    bool checkpoint = true;                 // true: the request `stop` also asks for a checkpoint
    std::uint64_t save = 0;                 // number of the newest request for a checkpoint, or 0
    std::vector<TrainingRequest> requests;  // in the order of arrival
    std::vector<std::int64_t> recorded;     // steps of checkpoints that rolld has recorded
};

class WorkerLink {
  public:
    WorkerLink();

    bool connected() const { return up_; }
    void report(const protocol::Report& report);
    Heard poll();  // returns the messages since the last poll()
    // Returns true if the rank was told to stop. Keeps all messages for poll().
    bool is_stopped();
    // Blocks until a line arrives or `timeout` expires.
    void await_line(std::chrono::milliseconds timeout) const;

  private:
    void read_lines();

    bool up_ = false;    // true: descriptor 3 is open
    bool down_ = false;  // true: stdin is a pipe that is still open
    std::string unread_;
    Heard heard_;
};

}  // namespace roll::train
