#include <filesystem>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/hub_cache.hpp"

namespace roll::cli {
namespace {

constexpr std::string_view kJobPrefix = "job:";

// Returns the selector in a dependency such as "ok:last". Returns an empty text if the dependency
// has a job id instead, or if the text is not a dependency.
std::string selector_of(const std::string& dependency) {
    for (const std::string_view when : {"ok:", "any:", "failed:", "exported:"}) {
        if (!dependency.starts_with(when)) continue;
        std::string selector = dependency.substr(when.size());
        const bool is_number = selector.find_first_not_of("0123456789") == selector.npos;
        return is_number ? "" : selector;
    }
    return "";
}

// Connects to rolld when it is first needed.
class LateDaemon {
  public:
    explicit LateDaemon(const Context& context) : context_(context) {}
    // Returns the reply to `show` for the only job that the selector selects.
    Result<Json> show(const std::string& selector) {
        if (!daemon_) {
            ROLL_TRY(Daemon connected, Daemon::connect(context_));
            daemon_.emplace(std::move(connected));
        }
        ROLL_TRY(const std::uint64_t id, one_job(*daemon_, selector));
        return daemon_->show(id);
    }

  private:
    const Context& context_;
    std::optional<Daemon> daemon_;
};

// Returns the id of the job that a dependency must name. If `job` is a task of an array, this is
// the id of the whole array, else the id of `job`.
std::uint64_t whole_job(const Json& job) {
    const Json array = job.value("array", Json());
    if (array.is_object()) return array.value("job", std::uint64_t{0});
    return job.value("id", std::uint64_t{0});
}

// Returns the id of a job group. If the job is itself a group, returns its id, else the id of the
// group to which the job belongs.
Result<std::uint64_t> group_of(const Json& job) {
    if (job.value("kind", Json()) == "open") return job.value("id", std::uint64_t{0});
    if (const Json into = job.value("into", Json()); into.is_number())
        return into.get<std::uint64_t>();
    return fail(ErrorCode::InvalidArgument,
                fmt::format("job {} is not a job group and does not belong to a job group",
                            field_text(job, "id")),
                "rollctl open NAME");
}

// Returns the directory of the job's newest checkpoint. If the job has no checkpoint, returns the
// directory of the model that the job wrote. Exports, convert jobs and merge jobs write such a
// model.
Result<std::string> model_of(const Json& job) {
    const Json checkpoints = job.value("checkpoints", Json::array());
    const Json* newest = nullptr;
    for (const Json& one : checkpoints)
        if (newest == nullptr || one.value("step", 0) >= newest->value("step", 0)) newest = &one;
    if (newest != nullptr) return field_text(*newest, "directory");
    if (const std::string made = field_text(job, "exported"); !made.empty()) return made;
    const std::string id = field_text(job, "id");
    if (is_over(job))
        return fail(ErrorCode::NotFound,
                    fmt::format("job {} has ended and has neither a checkpoint nor a model", id),
                    "rollctl show " + id);
    return fail(ErrorCode::NotFound, fmt::format("job {} has no checkpoint yet", id),
                "rollctl checkpoint " + id);
}

}  // namespace

Result<void> replace_models(const Context& context, std::vector<std::string>& words) {
    // words[0] is the command. words[1] is the model to read: a path, or a name on the Hub.
    if (words.size() > 1 && !std::filesystem::exists(words[1]))
        words[1] = cached_snapshot(words[1], HubKind::Model).value_or(words[1]);
    LateDaemon daemon(context);
    for (std::string& word : words) {
        if (!word.starts_with(kJobPrefix) || std::filesystem::exists(word)) continue;
        ROLL_TRY(const Json job, daemon.show(word.substr(kJobPrefix.size())));
        ROLL_TRY(word, model_of(job));
    }
    return {};
}

Result<void> replace_selectors(const Context& context, Json& document) {
    LateDaemon daemon(context);
    if (const auto after = document.find("after"); after != document.end() && after->is_array()) {
        for (Json& word : *after) {
            const std::string text = word.is_string() ? word.get<std::string>() : "";
            const std::string selector = selector_of(text);
            if (selector.empty()) continue;
            ROLL_TRY(const Json job, daemon.show(selector));
            word = text.substr(0, text.size() - selector.size()) + std::to_string(whole_job(job));
        }
    }
    if (const auto into = document.find("into"); into != document.end() && into->is_string()) {
        ROLL_TRY(const Json job, daemon.show(into->get<std::string>()));
        ROLL_TRY(*into, group_of(job));
    }
    return {};
}

}  // namespace roll::cli
