// What a roll-worker leaves for the next one: a journal of its attempts, each with its guard
// process and its last report. By it a new roll-worker ends what an old one left running and still
// reports how it ended. Blocks on the local disk of the state directory.
//
// The journal's lines are records, the newest of an attempt counts, and {"forget": attempt}. It is
// appended to: a file an attempt, made and removed, costs more than starting its program. What is
// lost with the machine is only synced where it tells of a checkpoint or an export, for processes
// are lost with it. The file `walls` names the wall of each roll-worker whose attempts may run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "common/io/process.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/wall.hpp"

namespace roll::agent {

// Names a process for good: the number alone may mean another one by now.
struct ProcessName {
    pid_t pid = 0;
    std::uint64_t started = 0;  // as of io::ProcessInfo
    friend auto operator<=>(const ProcessName&, const ProcessName&) = default;
};

class RunDirectory {
  public:
    // Makes and locks it. Refused if a living roll-worker has it.
    static Result<RunDirectory> open(const std::filesystem::path& path, std::string session);

    // For the reaper of the roll-worker that has the directory now: only that one's attempts, and
    // nothing is written. Fails with NotFound if no roll-worker has named its wall.
    static Result<RunDirectory> watch(const std::filesystem::path& path);

    // A number that grows each time it is opened, and with the clock where it was lost. The
    // one after it belongs to the reaper.
    Result<std::uint64_t> next_generation();

    // Kills what earlier roll-workers' attempts still run, waits for its end, and returns their
    // last reports; their records stay until forget(). Inside a cgroup or a namespace it waits as
    // long as the kernel takes, and calls `tell` now and then. Called once, before anything is
    // started.
    using Tell = std::function<void(const std::string&)>;
    std::vector<protocol::RunningAttempt> end_leftovers(const Tell& tell = {});

    // After end_leftovers(): whether no process of any attempt can be left. `clean` are the guards
    // that said so of what was below them.
    bool nothing_left(const std::set<ProcessName>& clean) const;

    // Called once, before anything is started: the wall of this roll-worker's attempts.
    Result<void> set_wall(const Wall& wall);

    // Written once there is something to end or to tell: a guard, or the end.
    Result<void> remember(const protocol::RunningAttempt& entry);
    // started: as of io::ProcessInfo.
    Result<void> set_guard(const AttemptKey& key, pid_t guard, std::uint64_t started);
    void forget(const AttemptKey& key);

    // At the end of a worker that never comes back under this name. Keeps what is not yet told.
    void remove();

    // Kills what an attempt still runs although its guard has ended.
    void end_strays(const AttemptKey& key);

  private:
    // Names processes for good: a number alone may mean another one by now.
    struct Record {
        protocol::RunningAttempt entry{};
        pid_t guard = 0;
        std::uint64_t guard_started = 0;
        std::string boot{};
        std::string session{};  // of the roll-worker that started it, as in ROLL_WORKER
    };
    // The wall of a roll-worker.
    struct Built {
        std::string boot{};
        std::string session{};
        WallKind kind = WallKind::Marks;
        std::string cgroup{};
    };

    RunDirectory(std::filesystem::path path, io::Descriptor lock, std::string session)
        : path_(std::move(path)),
          lock_(std::move(lock)),
          session_(std::move(session)),
          boot_(io::boot_id()) {}
    std::filesystem::path journal() const { return path_ / "attempts"; }
    Record& record_of(const AttemptKey& key);
    void read_all();
    void read_line(const std::string& line);
    Result<void> write(const Record& record);
    Result<void> append(const std::string& lines);
    Result<void> rewrite();
    static std::string encode(const Record& record);
    static Result<Record> decode(const std::string& line);
    void read_walls();
    WallKind wall_of(const Record& record) const;
    void end_processes(const Record& record, const Tell& tell) const;
    void end_walls(const Tell& tell);

    std::filesystem::path path_;
    io::Descriptor lock_;  // none: watch()
    std::string session_;
    std::string boot_;
    std::map<AttemptKey, Record> records_{};
    std::vector<Built> walls_{};
    io::Descriptor file_{};  // the journal
    std::int64_t bytes_ = 0;
    std::string
        forgotten_{};  // lines that go with the next ones: to tell an end twice does no harm
};

}  // namespace roll::agent
