// A snapshot is a copy of State in a file next to the ledger. With a snapshot, a start of rolld
// applies only the events that are newer than the snapshot.
//
// A snapshot is only a cache. A snapshot names the row of the hash chain at which it was taken. A
// snapshot is ignored if it is damaged, or belongs to another chain or another layout of State. All
// events are then applied.
#pragma once

#include <filesystem>

#include <sys/types.h>

#include "common/error.hpp"
#include "daemon/core/state/state.hpp"
#include "daemon/ledger/mark.hpp"

namespace roll::ledger {

struct Snapshot {
    Mark at;  // newest row whose event is included in `state`
    core::State state;
};

// Writes a snapshot atomically. Does not sync the file, because read_snapshot() detects a snapshot
// that a power loss left incomplete.
Result<void> write_snapshot(const std::filesystem::path& path, const Mark& at,
                            const core::State& state);

// Reads a snapshot. Fails with NotFound if there is no snapshot, and with Corrupt if the snapshot
// is damaged. Fails with Refused if another version of rolld wrote the snapshot.
Result<Snapshot> read_snapshot(const std::filesystem::path& path);

// Writes snapshots in a child process. The child has a copy of State from the fork, so that the
// caller continues at once. Writes one snapshot at a time.
class SnapshotWriter {
  public:
    SnapshotWriter() = default;
    SnapshotWriter(SnapshotWriter&& other) noexcept;
    SnapshotWriter& operator=(SnapshotWriter&& other) noexcept;
    SnapshotWriter(const SnapshotWriter&) = delete;
    SnapshotWriter& operator=(const SnapshotWriter&) = delete;
    ~SnapshotWriter();  // kills the child, if any

    // Starts writing a snapshot. Returns false if no child process could be created.
    bool start(const std::filesystem::path& path, const Mark& at, const core::State& state);
    // Returns whether a snapshot is being written. Reaps the child if it has ended.
    bool busy();

  private:
    void stop();
    pid_t child_ = -1;
};

}  // namespace roll::ledger
