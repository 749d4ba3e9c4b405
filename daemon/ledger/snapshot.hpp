// A copy of State next to the ledger, so that a start applies only the events after it.
//
// A cache: it names the row of the hash chain at which it was taken. If it is damaged or belongs
// to another chain or State layout, it is ignored and all events are applied.
#pragma once

#include <filesystem>

#include <sys/types.h>

#include "common/error.hpp"
#include "daemon/core/state.hpp"
#include "daemon/ledger/mark.hpp"

namespace roll::ledger {

struct Snapshot {
    Mark at;  // the newest row included in `state`
    core::State state;
};

// Writes a snapshot atomically. Does not sync it, because a snapshot left incomplete by a power
// loss is detected as damaged.
Result<void> write_snapshot(const std::filesystem::path& path, const Mark& at,
                            const core::State& state);

// Reads a snapshot. Fails with NotFound if there is none, Refused if another program version wrote
// it, Corrupt if it is damaged.
Result<Snapshot> read_snapshot(const std::filesystem::path& path);

// Writes snapshots in a child process, which has a copy of State from the fork, so the caller
// continues at once. One at a time.
class SnapshotWriter {
  public:
    SnapshotWriter() = default;
    SnapshotWriter(SnapshotWriter&& other) noexcept;
    SnapshotWriter& operator=(SnapshotWriter&& other) noexcept;
    SnapshotWriter(const SnapshotWriter&) = delete;
    SnapshotWriter& operator=(const SnapshotWriter&) = delete;
    ~SnapshotWriter();  // ends the child

    // Starts writing. Returns false if no process could be created.
    bool start(const std::filesystem::path& path, const Mark& at, const core::State& state);
    // True while a snapshot is being written.
    bool busy();

  private:
    void stop();
    pid_t child_ = -1;
};

}  // namespace roll::ledger
