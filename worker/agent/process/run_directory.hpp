// Files that a roll-worker leaves for the next one: a journal of its attempts, each with its guard
// process and last report. With these files, a new roll-worker ends processes left by an old one
// and still reports how the attempts ended. The functions block on the local disk of the state
// directory.
//
// Each line of the journal is {"forget": attempt} or a record; the newest record of an attempt
// counts. There is one journal that lines are appended to, because creating and removing a file per
// attempt would take longer than starting the attempt's program. The journal is synced only for
// checkpoints and exports: the other records name processes, which do not survive a crash of the
// machine. The file `walls` names the wall (how processes are confined, wall.hpp) of each
// roll-worker whose attempts may still run.
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
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/wall.hpp"

namespace roll::agent {

// Identifies a process permanently, because a process id alone may be reused.
struct ProcessName {
    pid_t pid = 0;
    std::uint64_t started = 0;  // start time, as in io::ProcessInfo
    friend auto operator<=>(const ProcessName&, const ProcessName&) = default;
};

class RunDirectory {
  public:
    // Creates and locks the directory. Fails with Refused if a running roll-worker holds it.
    static Result<RunDirectory> open(const std::filesystem::path& path, std::string session);

    // Opens the directory for the reaper, while the reaper's roll-worker holds it. Reads that
    // roll-worker's attempts and writes nothing. Fails with NotFound if no roll-worker has called
    // set_wall().
    static Result<RunDirectory> watch(const std::filesystem::path& path);

    // Returns the generation of this roll-worker, a number that is part of its heartbeats. The
    // number is the time of the wall clock, or the last roll-worker's number plus 2 if that is
    // higher. It therefore grows even if the stored number was lost. The reaper of this roll-worker
    // has the next number.
    Result<std::uint64_t> next_generation();

    // Returns the random id of this directory. The first call makes it.
    Result<std::string> identity() const;

    // Kills the processes of earlier roll-workers' attempts, waits for their end and returns the
    // attempts' last reports. The attempts' records stay until forget(). If a cgroup or namespace
    // confines the processes, waits as long as the kernel takes to end them, and passes a message
    // to `tell` from time to time. Call it once, before anything is started.
    using Tell = std::function<void(const std::string&)>;
    std::vector<protocol::RunningAttempt> end_leftovers(const Tell& tell = {});

    // Returns the programs that the guards of the recorded attempts were to run after their
    // attempts. Guards that were killed have not run them.
    std::vector<Program> left_over() const;

    // Returns true only if it is certain that no process of any attempt is left. `clean` lists the
    // guards that reported that all processes below them have ended. Requires that end_leftovers()
    // was called.
    bool nothing_left(const std::set<ProcessName>& clean) const;

    // Records how the processes of this roll-worker's attempts are confined. Call it once, before
    // anything is started. `limits` has the cgroups that limit the attempts' resources and are
    // removed once all attempts have ended.
    Result<void> set_wall(const Wall& wall, const std::vector<std::string>& limits = {});

    // Records an attempt. Writes to disk only if the attempt has a guard or has ended.
    Result<void> remember(const protocol::RunningAttempt& entry);
    // Records an attempt's guard process. `started` is the guard's start time, as in
    // io::ProcessInfo. `after` is that of the guard's plan.
    Result<void> set_guard(const AttemptKey& key, pid_t guard, std::uint64_t started,
                           const std::vector<Program>& after = {});
    void forget(const AttemptKey& key);

    // Removes this directory if no report is pending. Call it for a worker whose name will never be
    // used again.
    void remove();

    // Kills the attempt's processes that outlived its guard.
    void end_strays(const AttemptKey& key);

  private:
    // A record of the journal. `guard` and `guard_started` together identify the guard process,
    // even after its process id is reused.
    struct Record {
        protocol::RunningAttempt entry{};
        pid_t guard = 0;
        std::uint64_t guard_started = 0;
        std::string boot{};
        // value of ROLL_WORKER in the processes of the roll-worker that started the attempt
        std::string session{};
        std::vector<Program> after{};
    };
    // An entry of the file `walls`: how one roll-worker confined its attempts' processes.
    struct Built {
        std::string boot{};
        std::string session{};
        WallKind kind = WallKind::Marks;
        std::string cgroup{};
        std::vector<std::string> limits{};
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
    io::Descriptor lock_;  // the directory's lock; unset after watch()
    std::string session_;
    std::string boot_;
    std::map<AttemptKey, Record> records_{};
    std::vector<Built> walls_{};
    io::Descriptor file_{};  // the file with the journal
    std::int64_t bytes_ = 0;
    // "forget" lines that the next write includes; if roll-worker dies before that write, the next
    // roll-worker reports these ends again
    std::string forgotten_{};
};

}  // namespace roll::agent
