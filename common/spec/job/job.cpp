#include "common/spec/job/job.hpp"

#include <algorithm>
#include <array>

namespace roll::spec {
namespace {

constexpr std::array<std::pair<const char*, JobKind>, 6> kKinds{{{"train", JobKind::Train},
                                                                 {"resume", JobKind::Resume},
                                                                 {"tokenize", JobKind::Tokenize},
                                                                 {"convert", JobKind::Convert},
                                                                 {"merge", JobKind::Merge},
                                                                 {"command", JobKind::Command}}};

constexpr std::array<const char*, 3> kOnExit = {"stop", "retry", "avoid_node"};
constexpr std::array<const char*, 4> kConditions = {"ok", "any", "failed", "exported"};

template <class E, std::size_t N>
std::optional<E> find_name(const std::array<const char*, N>& names, std::string_view name) {
    const auto found =
        std::ranges::find(names, name, [](const char* known) { return std::string_view(known); });
    if (found == names.end()) return std::nullopt;
    return static_cast<E>(found - names.begin());
}

}  // namespace

const char* name_of(JobKind kind) {
    for (const auto& [name, value] : kKinds) {
        if (value == kind) return name;
    }
    return "command";
}

std::chrono::seconds JobSpec::shortest_time() const {
    std::chrono::seconds shortest = resources.time;
    for (const Resources& one : variants) shortest = std::min(shortest, one.time);
    return shortest;
}

const char* name_of(OnExit what) { return kOnExit.at(static_cast<std::size_t>(what)); }

std::optional<OnExit> parse_on_exit(std::string_view name) {
    return find_name<OnExit>(kOnExit, name);
}

const char* name_of(After::Condition condition) {
    return kConditions.at(static_cast<std::size_t>(condition));
}

std::optional<After::Condition> parse_condition(std::string_view name) {
    return find_name<After::Condition>(kConditions, name);
}

std::optional<JobKind> parse_kind(std::string_view name) {
    for (const auto& [known, kind] : kKinds) {
        if (name == known) return kind;
    }
    return std::nullopt;
}

}  // namespace roll::spec
