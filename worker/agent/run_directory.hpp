// What a roll-worker leaves for the next one: a journal of its attempts, each with its guard
// process and its last report. By it a new roll-worker ends what an old one left running and still
// reports how it ended. Blocks on the local disk of the state directory.
//
// The journal's lines are records, the newest of an attempt counts, and {"forget": attempt}. It is
// appended to: a file an attempt, made and removed, costs more than starting its program. What is
// lost with the machine is only synced where it tells of a checkpoint or an export, for processes
// are lost with it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "common/io/process.hpp"
#include "common/protocol/worker.hpp"

namespace roll::agent {

class RunDirectory {
  public:
    // Makes and locks it. Refused if a living roll-worker has it.
    static Result<RunDirectory> open(const std::filesystem::path& path, std::string session);

    // A number that grows each time it is opened, and with the clock where it was lost.
    Result<std::uint64_t> next_generation();

    // Kills what the attempts in it still run, waits for its end, and gives their last reports;
    // their records stay until forget(). Called once, before anything is started.
    std::vector<protocol::RunningAttempt> end_leftovers();

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
    static void end_processes(const Record& record);

    std::filesystem::path path_;
    io::Descriptor lock_;
    std::string session_;
    std::string boot_;
    std::map<AttemptKey, Record> records_{};
    io::Descriptor file_{};  // the journal
    std::int64_t bytes_ = 0;
    std::string
        forgotten_{};  // lines that go with the next ones: to tell an end twice does no harm
};

}  // namespace roll::agent
