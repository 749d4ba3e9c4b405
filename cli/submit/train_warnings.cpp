#include <chrono>

#include <fmt/format.h>

#include "cli/submit/checks.hpp"
#include "common/spec/check/checkpoint_rules.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/train.hpp"

namespace roll::cli {

std::vector<std::string> train_warnings(const std::vector<spec::JobSpec>& jobs) {
    std::vector<std::string> warnings;
    for (const spec::JobSpec& job : jobs) {
        const std::chrono::seconds limit = job.resources.time;
        const bool is_short = limit.count() > 0 && limit <= std::chrono::hours(1);
        const auto train =
            job.trains() ? spec::train_spec(job.document.text()) : tl::unexpected(Error{});
        std::vector<std::string> told;
        if (train) told = spec::idle_warnings(*train);
        if (const std::string unsaved = train && !is_short ? spec::unsaved_warning(*train) : "";
            !unsaved.empty())
            told.push_back(unsaved);
        for (const std::string& warning : told)
            warnings.push_back(fmt::format("warning: {}: {}", job.name, warning));
        for (std::string& warning : train_warnings(job.then))
            warnings.push_back(std::move(warning));
    }
    return warnings;
}

}  // namespace roll::cli
