#include "daemon/http/pipeline.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/io/process.hpp"

namespace roll::http {
namespace {

constexpr auto kPlanTime = std::chrono::seconds(30);
constexpr std::size_t kPlanBytesMax = 8u << 20;
constexpr int kDocumentFd = 3;  // descriptor from which roll-rank reads the document

tl::unexpected<Error> no_plan() {
    return fail(ErrorCode::Failed, "roll-rank could not compute the schedule of this job",
                "to see why: rollctl plan FILE");
}

Result<io::Descriptor> in_memory(const std::string& text) {
    io::Descriptor file(::memfd_create("roll-plan", MFD_CLOEXEC));
    if (!file || ::write(file.get(), text.data(), text.size()) != std::ssize(text))
        return no_plan();
    return file;
}

// Reads until the other end is closed. Returns an empty text if the data takes too long to arrive
// or is too large.
std::string read_all(const io::Descriptor& pipe) {
    const auto end = std::chrono::steady_clock::now() + kPlanTime;
    std::string text;
    for (std::string part(64u << 10, '\0'); text.size() < kPlanBytesMax;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            end - std::chrono::steady_clock::now());
        pollfd readable{pipe.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
        const ssize_t got = ::read(pipe.get(), part.data(), part.size());
        if (got == 0) return text;
        if (got < 0) break;
        text.append(part, 0, static_cast<std::size_t>(got));
    }
    return {};
}

}  // namespace

Result<Json> run_plan(const Json& document) {
    const auto program = std::filesystem::path(io::own_program()).parent_path() / "roll-rank";
    Json timed = document;
    // Set a peak, so that roll-rank does not measure this machine. The peak does not affect the
    // schedule.
    if (timed.contains("train") && timed["train"].is_object()) timed["train"]["peak_tflops"] = 1;
    ROLL_TRY(const io::Descriptor file, in_memory(dump(timed)));
    ROLL_TRY(io::Pipe pipe, io::make_pipe());
    io::Spawn spawn{.arguments = {program.string(), "plan", "--json", "--spec",
                                  fmt::format("/proc/self/fd/{}", kDocumentFd)},
                    .environment = io::current_environment()};
    spawn.descriptors = {{pipe.write.get(), STDOUT_FILENO}, {file.get(), kDocumentFd}};
    spawn.death_signal = SIGKILL;
    const auto pid = io::spawn(spawn);
    if (!pid)
        return fail(ErrorCode::Unavailable, "this installation has no roll-rank",
                    "on a machine with the trainer: rollctl plan FILE");
    pipe.write = io::Descriptor();
    const std::string text = read_all(pipe.read);
    if (text.empty()) ::kill(*pid, SIGKILL);
    int status = 0;
    ::waitpid(*pid, &status, 0);
    Json plan = Json::parse(text, nullptr, false);
    if (status != 0 || !plan.is_object() || !plan.contains("pipeline")) return no_plan();
    return plan;
}

Result<Pipelines::Text> Pipelines::of(std::uint64_t id, const Json& document) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.find(id);
        if (found != kept_.end()) return found->second;
    }
    const Json parallel = document.is_object() ? document.value("parallel", Json()) : Json();
    if (!parallel.is_object() || !parallel.value("pp", Json()).is_number() || parallel["pp"] < 2)
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("job {} has no pipeline: its parallel.pp is not 2 or more", id));
    const std::unique_lock running(running_, std::try_to_lock);
    if (!running.owns_lock())
        return fail(ErrorCode::Unavailable, "the schedule of another job is being computed",
                    "try again in a few seconds");
    const auto text = run_(document).map([](const Json& plan) -> Text {
        const Json reply = {{"schema", "roll.pipeline/1"},
                            {"mesh", plan.value("mesh", Json())},
                            {"pipeline", plan.at("pipeline")}};
        return std::make_shared<const std::string>(dump(reply) + "\n");
    });
    const std::lock_guard lock(mutex_);
    if (kept_.size() >= kKeptMax) kept_.clear();
    kept_.insert_or_assign(id, text);
    return text;
}

}  // namespace roll::http
