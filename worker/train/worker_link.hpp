// What this rank says to roll-worker (lines on descriptor 3) and hears from it (lines on stdin, and
// SIGTERM). Started by hand there is no descriptor 3: then it talks on stderr.
//
// Make it before anything opens files, and before threads start: it blocks SIGTERM and SIGINT,
// which stay pending until poll() looks. One thread; report() writes at once, poll() never blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/rank.hpp"

namespace roll::train {

struct Heard {
    bool stop = false;
    bool checkpoint = true;              // with stop: save first
    std::uint64_t save = 0;              // the newest request for a checkpoint; 0: none
    std::vector<std::int64_t> recorded;  // steps whose checkpoints are in the ledger
};

class WorkerLink {
  public:
    WorkerLink();

    bool connected() const { return up_; }
    void report(const protocol::Report& report);
    Heard poll();
    // Blocks until a line has come or the time is over.
    void await_line(std::chrono::milliseconds timeout) const;

  private:
    void read_lines(Heard& heard);

    bool up_ = false;    // descriptor 3 is there
    bool down_ = false;  // stdin is a pipe that is still open
    std::string unread_;
};

}  // namespace roll::train
