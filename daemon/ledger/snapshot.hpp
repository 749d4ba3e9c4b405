// A State on disk beside the ledger, so that a start folds only the events that follow it.
//
// It is a cache: it names the row of the hash chain that it was taken at, and one that is damaged,
// of another program's layout or of another chain is not used; the events are folded instead.
#pragma once

#include <filesystem>

#include <sys/types.h>

#include "common/error.hpp"
#include "daemon/core/state.hpp"
#include "daemon/ledger/mark.hpp"

namespace roll::ledger {

struct Snapshot {
    Mark at;  // the newest row that it holds
    core::State state;
};

// Whole or not at all. Not synced: what a loss of power leaves of it is found to be damaged.
Result<void> write_snapshot(const std::filesystem::path& path, const Mark& at,
                            const core::State& state);

// NotFound: none is there. Refused: another program's. Corrupt: it is not what was written.
Result<Snapshot> read_snapshot(const std::filesystem::path& path);

// Writes snapshots in a child process, which has a copy of State from the moment of the fork: the
// caller goes on at once. One at a time.
class SnapshotWriter {
  public:
    SnapshotWriter() = default;
    SnapshotWriter(SnapshotWriter&& other) noexcept;
    SnapshotWriter& operator=(SnapshotWriter&& other) noexcept;
    SnapshotWriter(const SnapshotWriter&) = delete;
    SnapshotWriter& operator=(const SnapshotWriter&) = delete;
    ~SnapshotWriter();  // ends the child

    // False: no process could be made.
    bool start(const std::filesystem::path& path, const Mark& at, const core::State& state);
    // Whether one is being written.
    bool busy();

  private:
    void stop();
    pid_t child_ = -1;
};

}  // namespace roll::ledger
