#include "daemon/http/pipeline.hpp"

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "common/io/run.hpp"

namespace roll::http {
namespace {

constexpr auto kPlanTime = std::chrono::seconds(30);
constexpr std::size_t kPlanBytesMax = 8u << 20;

tl::unexpected<Error> no_plan() {
    return fail(ErrorCode::Failed, "roll-rank could not compute the schedule of this job",
                "to see why: rollctl plan FILE");
}

}  // namespace

Result<Json> run_plan(const Json& document) {
    const auto program = std::filesystem::path(io::own_program()).parent_path() / "roll-rank";
    Json timed = document;
    // Set a peak, so that roll-rank does not measure this machine. The peak does not affect the
    // schedule.
    if (timed.contains("train") && timed["train"].is_object()) timed["train"]["peak_tflops"] = 1;
    const auto done =
        io::run({.arguments = {program.string(), "plan", "--json", "--spec", "/proc/self/fd/0"},
                 .environment = io::current_environment()},
                {.input = dump(timed), .deadline = kPlanTime, .output_max = kPlanBytesMax});
    if (!done)
        return fail(ErrorCode::Unavailable, "this installation has no roll-rank",
                    "on a machine with the trainer: rollctl plan FILE");
    Json plan = Json::parse(done->output, nullptr, false);
    if (done->exit_code != 0 || !plan.is_object() || !plan.contains("pipeline")) return no_plan();
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
