#include <chrono>

#include <fmt/format.h>

#include "cli/submit/checks.hpp"
#include "common/spec/check/checkpoint_rules.hpp"
#include "common/spec/train/train.hpp"

namespace roll::cli {

std::vector<std::string> unsaved_warnings(const std::vector<spec::JobSpec>& jobs) {
    std::vector<std::string> warnings;
    for (const spec::JobSpec& job : jobs) {
        const std::chrono::seconds limit = job.resources.time;
        const bool is_short = limit.count() > 0 && limit <= std::chrono::hours(1);
        const auto train = job.trains() && !is_short ? spec::train_spec(job.document.text())
                                                     : tl::unexpected(Error{});
        if (const std::string told = train ? spec::unsaved_warning(*train) : ""; !told.empty())
            warnings.push_back(fmt::format("warning: {}: {}", job.name, told));
        for (std::string& warning : unsaved_warnings(job.then))
            warnings.push_back(std::move(warning));
    }
    return warnings;
}

}  // namespace roll::cli
