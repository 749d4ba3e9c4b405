#include "worker/train/job/step_exports.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include <sys/resource.h>

#include "common/files.hpp"
#include "common/spec/train/convert.hpp"
#include "worker/checkpoint/names.hpp"
#include "worker/train/job/check_export.hpp"
#include "worker/train/process/child.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using namespace std::chrono_literals;

constexpr const char* kPrefix = "hf-step-";
constexpr auto kLongest = std::chrono::hours(24);  // an export that runs longer has failed
constexpr auto kToldEvery = 1s;

// Returns the name of the export's directory, such as "hf-step-00000100".
std::string directory_name(std::int64_t step) {
    char name[64];
    std::snprintf(name, sizeof name, "%s%08lld", kPrefix, static_cast<long long>(step));
    return name;
}

// Returns the name of the exported checkpoint; empty if the export is not complete.
std::string checkpoint_of(const fs::path& directory) {
    const auto text = read_file(directory / kExportFile);
    const auto json = text ? parse_json(*text) : tl::unexpected(text.error());
    return json && json->is_object() ? json->value("checkpoint", "") : "";
}

// Returns the complete exports in the folder, by step.
std::map<std::int64_t, fs::path> complete_in(const fs::path& folder) {
    std::map<std::int64_t, fs::path> found;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(kPrefix)) continue;
        const std::int64_t step = std::atoll(name.c_str() + std::string_view(kPrefix).size());
        if (name == directory_name(step) && !checkpoint_of(entry.path()).empty())
            found[step] = entry.path();
    }
    return found;
}

// Removes the files of an attempt that was killed during an export.
void remove_unfinished(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".") && name.find(kPrefix) != std::string::npos)
            found.push_back(entry.path());
    }
    for (const fs::path& one : found) fs::remove_all(one, error);
}

fs::path beside(const char* program) {
    std::error_code error;
    return fs::read_symlink("/proc/self/exe", error).parent_path() / program;
}

const char* dtype_name(spec::ExportDtype dtype) {
    switch (dtype) {
        case spec::ExportDtype::Fp32: return "fp32";
        case spec::ExportDtype::Bf16: return "bf16";
        case spec::ExportDtype::Fp16: return "fp16";
    }
    return "";
}

// Gives the finished export its final name. Deletes an earlier export of the same step that was
// made from another checkpoint.
Result<void> publish(const fs::path& staged, const fs::path& target) {
    const fs::path old = target.parent_path() / ("." + target.filename().string() + ".old");
    std::error_code error;
    fs::remove_all(old, error);
    fs::rename(target, old, error);  // fails if there is no earlier export; this is usual
    fs::rename(staged, target, error);
    if (error)
        return fail(ErrorCode::Failed, "cannot rename " + staged.string() + ": " + error.message());
    ROLL_TRY_VOID(fsync_directory(target.parent_path()));
    fs::remove_all(old, error);
    return {};
}

}  // namespace

StepExports::StepExports(const protocol::Launch& launch, const spec::TrainSpec& spec,
                         const ModelSetup& model, Saver& saver, WorkerLink& link)
    : launch_(launch),
      spec_(spec),
      base_(model.base),
      adapters_(model.adapters),
      saver_(saver),
      link_(link),
      folder_(fs::path(launch.output) / "export") {
    remove_unfinished(folder_);
    const auto complete = complete_in(folder_);
    for (const auto& [step, directory] : complete) report(step);
    const fs::path own = fs::path(launch.output) / "checkpoints";
    for (const protocol::WrittenCheckpoint& one : launch.checkpoints) {
        if (one.deleted || fs::path(one.directory).parent_path() != own || !is_due(one.step))
            continue;
        recorded(one.step, one.directory);
        break;  // export only the newest checkpoint, which is first in the list
    }
}

StepExports::~StepExports() {
    programs_.stopped = true;
    if (const pid_t pid = programs_.pid; pid > 0) ::kill(-pid, SIGKILL);
}

bool StepExports::is_due(std::int64_t step) const {
    return step % (spec_.export_every * spec_.checkpoint_every) == 0 && step < spec_.steps;
}

void StepExports::recorded(std::int64_t step, const fs::path& checkpoint) {
    if (!is_due(step)) return;
    if (checkpoint_of(folder_ / directory_name(step)) == checkpoint.filename()) return;
    if (waiting_)
        std::printf(
            "the export of step %lld is skipped, because the export of step %lld still runs\n",
            static_cast<long long>(waiting_->step), static_cast<long long>(running_->step));
    waiting_ = Due{step, checkpoint};
    start_next();
}

void StepExports::start_next() {
    if (!running_ && waiting_) {
        running_ = std::exchange(waiting_, std::nullopt);
        background_.start([this, due = *running_] { return make(due); });
    }
    hold();
}

// Protects from retention the checkpoint that is being exported and the checkpoint that waits to be
// exported.
void StepExports::hold() const {
    std::vector<std::int64_t> steps;
    for (const auto& one : {running_, waiting_})
        if (one) steps.push_back(one->step);
    saver_.hold(std::move(steps));
}

void StepExports::report(std::int64_t step) const {
    const auto complete = complete_in(folder_);
    if (!complete.contains(step)) return;
    link_.report(
        protocol::CheckpointExported{{step, complete.at(step).string(), complete.begin()->first}});
}

void StepExports::poll() {
    const auto outcome = background_.poll();
    if (!outcome) return;
    const std::int64_t step = running_->step;
    running_.reset();
    if (*outcome) {
        std::printf("the checkpoint of step %lld is exported: %s\n", static_cast<long long>(step),
                    (*outcome)->c_str());
        report(step);
    } else if (!programs_.stopped) {
        std::printf("the export of step %lld has failed, and training continues: %s\n",
                    static_cast<long long>(step), sentence_of(outcome->error()).c_str());
    }
    std::fflush(stdout);
    start_next();
}

void StepExports::finish() {
    const auto begin = std::chrono::steady_clock::now();
    auto told = begin;
    for (; running_; poll()) {
        if (link_.is_stopped()) {
            std::printf("the job stops, so the export of step %lld is not completed\n",
                        static_cast<long long>(running_->step));
            return;
        }
        link_.await_line(100ms);
        const auto now = std::chrono::steady_clock::now();
        if (now - told < kToldEvery) continue;
        told = now;
        const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - begin).count();
        link_.report(protocol::Progress{
            Json{{"phase", "export"}, {"step", running_->step}, {"waited_s", waited}}.dump()});
    }
}

// Writes the export to the directory `staged`, and compares it with the checkpoint.
Result<void> StepExports::stage(const Due& due, const fs::path& staged) {
    spec::ConvertSpec convert;
    convert.target = staged;
    convert.to = spec_.lora.is_set() && !spec_.export_merged ? "peft" : "hf";
    convert.merge = spec_.export_merged;
    convert.dtype = dtype_name(spec_.export_dtype);
    if (spec_.export_averaged) convert.state = "ema";
    convert.overwrite = true;
    protocol::Launch launch = launch_;
    launch.kind = "convert";
    launch.document = spec::document_of(convert);
    launch.nodes = launch.ranks_per_node = 1;
    launch.gpus.clear();
    launch.checkpoints = {{.step = due.step, .directory = due.checkpoint}};
    const fs::path file = fs::path(launch.logs) / ("export-" + std::to_string(due.step) + ".json");
    ROLL_TRY_VOID(make_directories(folder_));
    ROLL_TRY_VOID(write_file_atomically(file, protocol::encode(launch)));
    ROLL_TRY_VOID(run({beside("roll-convert"), "--launch", file}, "roll-convert"));
    return run(check_command(due, staged), "the comparison with the checkpoint");
}

// Makes the export, on the background thread. Returns its directory.
Result<std::string> StepExports::make(const Due& due) {
    const fs::path target = folder_ / directory_name(due.step);
    // The name contains the attempt's token, because a fenced attempt may still export the same
    // step on another node.
    const fs::path staged =
        folder_ / ("." + directory_name(due.step) + "." + to_string(launch_.attempt.token));
    std::error_code error;
    Result<void> made = stage(due, staged);
    if (made) made = publish(staged, target);
    if (!made) {
        fs::remove_all(staged, error);
        return tl::unexpected(made.error());
    }
    auto complete = complete_in(folder_);
    for (; std::ssize(complete) > spec_.export_keep; complete.erase(complete.begin()))
        fs::remove_all(complete.begin()->second, error);
    return target.string();
}

std::vector<std::string> StepExports::check_command(const Due& due, const fs::path& directory) {
    std::vector<std::string> command{beside("roll-rank"), "check-export",
                                     directory,           due.checkpoint,
                                     "--dtype",           dtype_name(spec_.export_dtype)};
    if (!base_.empty()) command.insert(command.end(), {"--base", base_});
    for (const std::string& adapter : adapters_)
        command.insert(command.end(), {"--adapter", adapter});
    if (spec_.lora.is_set() && !spec_.export_merged) command.emplace_back("--is-adapter");
    if (spec_.export_averaged) command.emplace_back("--averaged");
    return command;
}

// Runs a program with a low priority and one thread, and waits for its end. If the ranks use all
// processors, the program gets about a tenth of one processor. With the lowest priority (19), the
// program would hardly run.
Result<void> StepExports::run(const std::vector<std::string>& command, const std::string& what) {
    if (programs_.stopped) return fail(ErrorCode::Unavailable, "the job stops");
    std::fflush(stdout);
    const pid_t pid =
        start_child(command, with_environment({"OMP_NUM_THREADS=1"}), Reports::Discarded);
    if (pid <= 0)
        return fail(ErrorCode::Failed,
                    "cannot start " + command.front() + ": " + std::strerror(-pid));
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 10);
    programs_.pid = pid;
    if (programs_.stopped) ::kill(-pid, SIGKILL);
    const std::string failure = await_child(pid, kLongest);
    programs_.pid = 0;
    if (failure.empty()) return {};
    return fail(ErrorCode::Failed, what + " " + failure + "; the log has its message");
}

}  // namespace roll::train
