#include <filesystem>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/hub.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr std::string_view kJobPrefix = "job:";

// Returns the directory of the job's newest checkpoint. If the job has no checkpoint, returns the
// directory of the model that the job wrote. Exports, convert jobs and merge jobs write such a
// model.
Result<std::string> model_of(const Json& job, std::uint64_t id) {
    const Json checkpoints = job.value("checkpoints", Json::array());
    const Json* newest = nullptr;
    for (const Json& one : checkpoints)
        if (newest == nullptr || one.value("step", 0) >= newest->value("step", 0)) newest = &one;
    if (newest != nullptr) return field_text(*newest, "directory");
    if (const std::string made = field_text(job, "exported"); !made.empty()) return made;
    return fail(ErrorCode::NotFound, fmt::format("job {} has no checkpoint yet", id),
                fmt::format("rollctl checkpoint {}", id));
}

}  // namespace

Result<void> replace_models(const Context& context, std::vector<std::string>& words) {
    // words[0] is the command, words[1] its model
    if (words.size() > 1 && !std::filesystem::exists(words[1]))
        words[1] = cached_snapshot(words[1], HubKind::Model).value_or(words[1]);
    std::optional<Daemon> daemon;
    for (std::string& word : words) {
        if (!word.starts_with(kJobPrefix) || std::filesystem::exists(word)) continue;
        if (!daemon) {
            ROLL_TRY(Daemon connected, Daemon::connect(context));
            daemon.emplace(std::move(connected));
        }
        ROLL_TRY(const std::uint64_t id, one_job(*daemon, word.substr(kJobPrefix.size())));
        ROLL_TRY(const Json job, daemon->show(id));
        ROLL_TRY(word, model_of(job, id));
    }
    return {};
}

}  // namespace roll::cli
