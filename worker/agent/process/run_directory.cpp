#include "worker/agent/process/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <iterator>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>

#include "common/files.hpp"
#include "common/io/process.hpp"
#include "common/json_text.hpp"
#include "common/protocol/field_lists.hpp"
#include "common/time.hpp"

namespace roll::agent {
namespace {

// How long to wait for a guard to end after its roll-worker has ended. A guard usually ends within
// milliseconds. A guard that has not ended after this time counts as stopped or hung and is killed.
constexpr std::chrono::milliseconds kGuardTime{3000};
constexpr std::chrono::milliseconds kKillTime{10000};
constexpr std::int64_t kJournalBytesMax = 4 << 20;

// Returns the processes of an attempt. Finds them by the environment variables that roll-worker set
// and that child processes inherit, even in other sessions.
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

// Kills the attempt's processes, repeatedly until none is found, because a process may fork while
// it is killed.
void kill_all_of_attempt(const std::string& session, const AttemptKey& key) {
    for (int round = 0; round < 10; ++round) {
        const auto processes = processes_of_attempt(session, key);
        if (processes.empty()) return;
        kill_and_wait(processes);
    }
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
                    "start this roll-worker with another --node or --dir");
    RunDirectory directory(path, std::move(lock), std::move(session));
    directory.read_walls();
    return directory;
}

Result<RunDirectory> RunDirectory::watch(const std::filesystem::path& path) {
    RunDirectory directory(path, {}, {});
    directory.read_walls();
    if (directory.walls_.empty())
        return fail(ErrorCode::NotFound,
                    (path / "walls").string() +
                        " is missing or empty; it names the --wall that roll-worker used",
                    "start roll-worker, which writes this file");
    directory.session_ = directory.walls_.back().session;
    return directory;
}

Result<std::uint64_t> RunDirectory::next_generation() {
    const auto file = path_ / "generation";
    std::uint64_t last = 0;
    if (const auto text = read_file(file))
        std::from_chars(text->data(), text->data() + text->size(), last);
    const auto clock = static_cast<std::uint64_t>(wall_clock_now().time_since_epoch().count());
    const std::uint64_t next = std::max(last + 2, clock);
    ROLL_TRY_VOID(write_file_atomically(file, std::to_string(next) + "\n"));
    return next;
}

Result<std::string> RunDirectory::identity() const {
    const auto file = path_ / "id";
    if (const auto text = read_file(file); text && !text->empty()) return *text;
    ROLL_TRY_VOID(write_file_atomically(file, session_));
    return session_;
}

void RunDirectory::remove() {
    std::error_code error;
    if (records_.empty()) std::filesystem::remove_all(path_, error);
}

std::string RunDirectory::encode(const Record& record) {
    protocol::Heartbeat report;  // encode the record as an entry of a heartbeat
    report.session = record.session;
    report.node = "here";
    report.running = {record.entry};
    JsonText text = JsonText()
                        .add("guard", record.guard)
                        .add("guard_started", record.guard_started)
                        .add("boot", record.boot)
                        .add("report", protocol::encode(report));
    if (!record.after.empty()) text.add("after", json_of(record.after));
    return text.text() + "\n";
}

Result<RunDirectory::Record> RunDirectory::decode(const std::string& line) {
    ROLL_TRY(const Json json, parse_json(line));
    JsonReader r(json, "attempt");
    Record record;
    record.guard = r.get<pid_t>("guard");
    record.guard_started = r.get<std::uint64_t>("guard_started");
    record.boot = r.get<std::string>("boot");
    const auto report = r.get<std::string>("report");
    const Json after = r.raw("after");
    ROLL_TRY_VOID(r.finish_lenient());
    // An attempt is found again even if the programs that clean up after it cannot be read.
    record.after = read_programs(after).value_or(std::vector<Program>());
    ROLL_TRY(protocol::Heartbeat heartbeat, protocol::decode_heartbeat(report));
    if (heartbeat.running.size() != 1)
        return fail(ErrorCode::Corrupt,
                    "a record of the run directory must contain exactly one attempt");
    record.session = heartbeat.session;
    record.entry = std::move(heartbeat.running[0]);
    return record;
}

// Applies a line of the journal. Skips a line that does not parse, because it may have been cut off
// when the machine or its volume failed.
void RunDirectory::read_line(const std::string& line) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("forget")) {
        AttemptKey key;
        if (protocol::read_value(json["forget"], "forget", key)) records_.erase(key);
    } else if (auto record = decode(line)) {
        records_[record->entry.attempt] = *std::move(record);
    }
}

// Reads the journal.
void RunDirectory::read_all() {
    std::istringstream lines(read_file(journal()).value_or(""));
    for (std::string line; std::getline(lines, line);) read_line(line);
}

// Replaces the journal by the records that are still needed.
Result<void> RunDirectory::rewrite() {
    std::string lines;
    for (const auto& [key, record] : records_) lines += encode(record);
    ROLL_TRY_VOID(write_file_atomically(journal(), lines));
    file_ = io::Descriptor(::open(journal().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_) return fail(ErrorCode::Failed, "cannot open " + journal().string());
    bytes_ = static_cast<std::int64_t>(lines.size());
    forgotten_.clear();
    return {};
}

// Appends to the journal. If only part of the text can be written, truncates the journal to its old
// size.
Result<void> RunDirectory::append(const std::string& lines) {
    if (!lock_) return {};
    if (!file_ || bytes_ > kJournalBytesMax) ROLL_TRY_VOID(rewrite());
    const std::string all = forgotten_ + lines;
    const auto size = static_cast<ssize_t>(all.size());
    if (::write(file_.get(), all.data(), all.size()) != size) {
        const int number = errno;
        if (::ftruncate(file_.get(), bytes_) != 0) file_.reset();
        return fail(ErrorCode::Refused, "cannot write " + journal().string() + ": " +
                                            std::generic_category().message(number));
    }
    bytes_ += size;
    forgotten_.clear();
    return {};
}

Result<void> RunDirectory::write(const Record& record) {
    ROLL_TRY_VOID(append(encode(record)));
    const protocol::RunningAttempt& entry = record.entry;
    const bool tells =
        !entry.checkpoints.empty() || !entry.exported.empty() || !entry.exports.empty();
    if (!tells || ::fdatasync(file_.get()) == 0) return {};
    return fail(ErrorCode::Failed, "cannot sync " + journal().string() + ": " +
                                       std::generic_category().message(errno));
}

// Reads the file `walls`, which says how roll-workers confined their attempts since the last boot.
// An older version of roll-worker wrote no such file.
void RunDirectory::read_walls() {
    std::istringstream lines(read_file(path_ / "walls").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const Json json = Json::parse(line, nullptr, false);
        if (!json.is_object()) continue;
        Built built{json.value("boot", ""), json.value("session", ""),
                    wall_from(json.value("wall", "")), json.value("cgroup", ""),
                    json.value("limits", std::vector<std::string>{})};
        if (built.boot == boot_) walls_.push_back(std::move(built));
    }
}

Result<void> RunDirectory::set_wall(const Wall& wall, const std::vector<std::string>& limits) {
    walls_ = {{boot_, session_, wall.kind(), wall.directory().string(), limits}};
    const std::string line = JsonText()
                                 .add("boot", boot_)
                                 .add("session", session_)
                                 .add("wall", name_of(wall.kind()))
                                 .add("cgroup", wall.directory().string())
                                 .add("limits", limits)
                                 .text();
    return write_file_atomically(path_ / "walls", line + "\n");
}

WallKind RunDirectory::wall_of(const Record& record) const {
    const auto found = std::ranges::find(walls_, record.session, &Built::session);
    return found == walls_.end() ? WallKind::Marks : found->kind;
}

// Ends the processes of an attempt: first the guard with all processes below it, then processes
// that are found by their environment, even in other sessions or with another parent. A guard that
// is process 1 of a PID namespace ends after all others in the namespace.
void RunDirectory::end_processes(const Record& record, const Tell& tell) const {
    if (record.boot != boot_) return;
    if (record.guard > 0 && !io::wait_ended(record.guard, record.guard_started, kGuardTime)) {
        auto processes = io::descendants(record.guard);
        const auto guard = io::find_process(record.guard);
        if (guard && guard->started == record.guard_started)
            processes.insert(processes.begin(), *guard);
        kill_and_wait(processes);
    }
    const bool enclosed = wall_of(record) == WallKind::Namespace;
    while (enclosed && !io::wait_ended(record.guard, record.guard_started, kKillTime))
        if (tell) tell("process " + std::to_string(record.guard) + " does not end after SIGKILL");
    kill_all_of_attempt(record.session, record.entry.attempt);
}

// Ends all processes in the cgroups that earlier roll-workers recorded. Call it after all guards
// have ended, so that no new process starts.
void RunDirectory::end_walls(const Tell& tell) {
    for (const Built& built : walls_) {
        for (const std::string& cgroup : built.limits) remove_cgroup(cgroup);
        if (built.cgroup.empty()) continue;
        while (!end_cgroup(built.cgroup, kKillTime))
            if (tell) tell("processes in " + built.cgroup + " do not end after SIGKILL");
        remove_cgroup(built.cgroup);
    }
}

std::vector<protocol::RunningAttempt> RunDirectory::end_leftovers(const Tell& tell) {
    read_all();
    const auto other = [&](const auto& item) { return item.second.session != session_; };
    if (!lock_) std::erase_if(records_, other);
    std::vector<protocol::RunningAttempt> entries;
    for (const auto& [key, record] : records_) {
        end_processes(record, tell);
        entries.push_back(record.entry);
    }
    end_walls(tell);
    return entries;
}

std::vector<Program> RunDirectory::left_over() const {
    std::vector<Program> programs;
    for (const auto& [key, record] : records_)
        std::ranges::copy(record.after, std::back_inserter(programs));
    return programs;
}

bool RunDirectory::nothing_left(const std::set<ProcessName>& clean) const {
    return std::ranges::all_of(records_, [&](const auto& item) {
        const Record& record = item.second;
        return record.entry.phase == protocol::Phase::Ended || record.boot != boot_ ||
               wall_of(record) != WallKind::Marks ||
               clean.contains({record.guard, record.guard_started});
    });
}

// Returns the record of an attempt. Makes the record if there is none. A new record gets the
// session of this roll-worker. A record that an earlier roll-worker made keeps the session of that
// roll-worker.
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
    if (record.guard == 0 && entry.phase != protocol::Phase::Ended) return {};
    return write(record);
}

Result<void> RunDirectory::set_guard(const AttemptKey& key, pid_t guard, std::uint64_t started,
                                     const std::vector<Program>& after) {
    Record& record = record_of(key);
    record.guard = guard;
    record.guard_started = started;
    record.after = after;
    return write(record);
}

void RunDirectory::end_strays(const AttemptKey& key) {
    const auto found = records_.find(key);
    if (found != records_.end()) kill_all_of_attempt(found->second.session, key);
}

void RunDirectory::forget(const AttemptKey& key) {
    if (records_.erase(key) == 0) return;
    forgotten_ += JsonText().add("forget", protocol::text_of(key)).text() + "\n";
    // If no record is left, write the "forget" line now. It would otherwise wait for the next
    // write, which may be much later.
    if (records_.empty()) static_cast<void>(append(""));
}

}  // namespace roll::agent
