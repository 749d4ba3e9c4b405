#include "common/spec/job/job.hpp"

#include <algorithm>

#include "common/enum_name.hpp"

namespace roll::spec {
namespace {

// The names are in the order of the enumerators.
constexpr std::array kKinds = {"train", "resume", "tokenize", "convert", "merge", "command"};
constexpr std::array kOnExit = {"stop", "retry", "avoid_node"};
constexpr std::array kConditions = {"ok", "any", "failed", "exported"};

}  // namespace

std::chrono::seconds JobSpec::shortest_time() const {
    std::chrono::seconds shortest = resources.time;
    for (const Resources& one : variants) shortest = std::min(shortest, one.time);
    return shortest;
}

const char* name_of(JobKind kind) { return name_in(kKinds, kind); }

std::optional<JobKind> parse_kind(std::string_view name) {
    return find_name<JobKind>(kKinds, name);
}

const char* name_of(OnExit what) { return name_in(kOnExit, what); }

std::optional<OnExit> parse_on_exit(std::string_view name) {
    return find_name<OnExit>(kOnExit, name);
}

const char* name_of(After::Condition condition) { return name_in(kConditions, condition); }

std::optional<After::Condition> parse_condition(std::string_view name) {
    return find_name<After::Condition>(kConditions, name);
}

}  // namespace roll::spec
