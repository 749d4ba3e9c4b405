#include "worker/agent/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace roll::agent {
namespace {

// A guard whose roll-worker has ended kills within milliseconds; a stopped or hung one is killed.
constexpr std::chrono::milliseconds kGuardTime{3000};
constexpr std::chrono::milliseconds kKillTime{10000};

// By what roll-worker put into their environment: that follows them into sessions of their own.
std::vector<io::ProcessInfo> processes_of_attempt(const std::string& session,
                                                  const AttemptKey& key) {
    const std::array<std::string, 3> marks = {"ROLL_WORKER=" + session,
                                              "ROLL_JOB=" + std::to_string(key.job.value),
                                              "ROLL_TOKEN=" + to_string(key.token)};
    std::vector<io::ProcessInfo> found;
    for (const io::ProcessInfo& process : io::descendants(0)) {
        const auto variables = read_file("/proc/" + std::to_string(process.pid) + "/environ");
        if (!variables) continue;
        const std::string text = std::string(1, '\0') + *variables + '\0';
        const bool ours = std::ranges::all_of(marks, [&](const std::string& mark) {
            return text.find('\0' + mark + '\0') != std::string::npos;
        });
        if (ours) found.push_back(process);
    }
    return found;
}

void kill_and_wait(const std::vector<io::ProcessInfo>& processes) {
    for (const io::ProcessInfo& process : processes) ::kill(process.pid, SIGKILL);
    for (const io::ProcessInfo& process : processes)
        io::wait_ended(process.pid, process.started, kKillTime);
}

// Again while there are any: one may have been making the next.
void kill_all_of_attempt(const std::string& session, const AttemptKey& key) {
    for (int round = 0; round < 10; ++round) {
        const auto processes = processes_of_attempt(session, key);
        if (processes.empty()) return;
        kill_and_wait(processes);
    }
}

// Whole for every reader, but not on disk yet.
Result<void> replace_file(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path next = path.string() + ".tmp";
    std::ofstream out(next, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(next, path, error);
    if (out && !error) return {};
    return fail(ErrorCode::Refused, "cannot write " + path.string());
}

}  // namespace

Result<RunDirectory> RunDirectory::open(const std::filesystem::path& path, std::string session) {
    ROLL_TRY_VOID(make_directories(path));
    const auto file = path / "lock";
    io::Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock)
        return fail(ErrorCode::Failed,
                    "cannot open " + file.string() + ": " + std::generic_category().message(errno));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
        return fail(ErrorCode::Refused, "another roll-worker runs with " + path.string(),
                    "give this one another --node or --dir");
    return RunDirectory(path, std::move(lock), std::move(session));
}

Result<std::uint64_t> RunDirectory::next_generation() {
    const auto file = path_ / "generation";
    std::uint64_t last = 0;
    if (const auto text = read_file(file))
        std::from_chars(text->data(), text->data() + text->size(), last);
    const auto clock = static_cast<std::uint64_t>(wall_clock_now().time_since_epoch().count());
    const std::uint64_t next = std::max(last + 1, clock);
    ROLL_TRY_VOID(write_file_atomically(file, std::to_string(next) + "\n"));
    return next;
}

void RunDirectory::remove() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path_, error))
        if (entry.path().extension() == ".json") return;
    std::filesystem::remove_all(path_, error);
}

std::filesystem::path RunDirectory::file_of(const AttemptKey& key) const {
    return path_ / (std::to_string(key.job.value) + "-" + to_string(key.token) + ".json");
}

Result<void> RunDirectory::write(const Record& record) {
    protocol::Heartbeat report;  // the codec of entries is that of heartbeats
    report.session = record.session;
    report.node = "here";
    report.running = {record.entry};
    const Json json = {{"guard", record.guard},
                       {"guard_started", record.guard_started},
                       {"boot", record.boot},
                       {"report", protocol::encode(report)}};
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    const auto file = file_of(record.entry.attempt);
    const bool tells = !record.entry.checkpoints.empty() || !record.entry.exported.empty();
    // Processes die with the machine, and a synced file for each costs more than starting them.
    return tells ? write_file_atomically(file, text) : replace_file(file, text);
}

Result<RunDirectory::Record> RunDirectory::read(const std::filesystem::path& file) {
    ROLL_TRY(const std::string text, read_file(file));
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader r(json, file.string());
    Record record;
    record.guard = r.get<pid_t>("guard");
    record.guard_started = r.get<std::uint64_t>("guard_started");
    record.boot = r.get<std::string>("boot");
    const auto report = r.get<std::string>("report");
    ROLL_TRY_VOID(r.finish_lenient());
    ROLL_TRY(protocol::Heartbeat heartbeat, protocol::decode_heartbeat(report));
    if (heartbeat.running.size() != 1)
        return fail(ErrorCode::Corrupt, file.string() + " does not hold one attempt");
    record.session = heartbeat.session;
    record.entry = std::move(heartbeat.running[0]);
    return record;
}

// First the guard, which takes everything below it along. If it could not, what is left is known by
// its environment, also in a session of its own and with another parent.
void RunDirectory::end_processes(const Record& record) {
    if (record.boot != io::boot_id()) return;
    if (record.guard > 0 && !io::wait_ended(record.guard, record.guard_started, kGuardTime)) {
        auto processes = io::descendants(record.guard);
        const auto guard = io::find_process(record.guard);
        if (guard && guard->started == record.guard_started)
            processes.insert(processes.begin(), *guard);
        kill_and_wait(processes);
    }
    kill_all_of_attempt(record.session, record.entry.attempt);
}

std::vector<protocol::RunningAttempt> RunDirectory::end_leftovers() {
    std::vector<protocol::RunningAttempt> entries;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(path_, error)) {
        if (file.path().extension() != ".json") continue;
        auto record = read(file.path());
        if (!record) continue;  // written atomically: not ours
        end_processes(*record);
        entries.push_back(record->entry);
        records_[record->entry.attempt] = *std::move(record);
    }
    return entries;
}

// A leftover keeps the session that started it.
RunDirectory::Record& RunDirectory::record_of(const AttemptKey& key) {
    Record& record = records_[key];
    record.entry.attempt = key;
    if (record.boot.empty()) {
        record.boot = boot_;
        record.session = session_;
    }
    return record;
}

Result<void> RunDirectory::remember(const protocol::RunningAttempt& entry) {
    Record& record = record_of(entry.attempt);
    record.entry = entry;
    record.entry.progress.clear();
    if (record.guard == 0 && entry.phase != "ended") return {};
    return write(record);
}

Result<void> RunDirectory::set_guard(const AttemptKey& key, pid_t guard, std::uint64_t started) {
    Record& record = record_of(key);
    record.guard = guard;
    record.guard_started = started;
    return write(record);
}

void RunDirectory::end_strays(const AttemptKey& key) {
    const auto found = records_.find(key);
    if (found != records_.end()) kill_all_of_attempt(found->second.session, key);
}

void RunDirectory::forget(const AttemptKey& key) {
    std::error_code error;
    std::filesystem::remove(file_of(key), error);
    records_.erase(key);
}

}  // namespace roll::agent
