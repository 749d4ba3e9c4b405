// What a roll-worker leaves for the next one: a file an attempt, with its guard process and the
// last report. By it a new roll-worker ends what an old one left running and still reports how it
// ended. Blocks on the local disk of the state directory.
#pragma once

#include <filesystem>
#include <map>
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
    // their files stay until forget(). Called once, before anything is started.
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
    std::filesystem::path file_of(const AttemptKey& key) const;
    Record& record_of(const AttemptKey& key);
    Result<void> write(const Record& record);
    static Result<Record> read(const std::filesystem::path& file);
    static void end_processes(const Record& record);

    std::filesystem::path path_;
    io::Descriptor lock_;
    std::string session_;
    std::string boot_;
    std::map<AttemptKey, Record> records_{};
};

}  // namespace roll::agent
