#include "common/spec/check/context.hpp"

#include <fmt/format.h>

#include "common/spec/train/preference.hpp"

namespace roll::spec {

std::vector<Problem> context_problems(std::int64_t cp, const std::string& objective) {
    if (cp <= 1 || !is_preference(objective)) return {};
    return {{"parallel.cp",
             fmt::format("is {}, but objective {} compares whole answers, and ranks that share an "
                         "answer are not supported yet; allowed with this objective: 1",
                         cp, objective)}};
}

}  // namespace roll::spec
