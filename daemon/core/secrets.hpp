// Which secrets there are, by name. What they hold is never in State (daemon/secrets).
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>

#include "common/spec/job.hpp"

namespace roll::core {

struct State;

struct SecretName {
    std::string user;  // whose it is
    std::string name;  // of the environment variable
    friend auto operator<=>(const SecretName&, const SecretName&) = default;
};
using SecretNames = std::set<SecretName>;

// The first secret of the job that its user has not; none: there are all.
std::optional<std::string> missing_secret(const State& state, const std::string& user,
                                          const spec::JobSpec& spec);

}  // namespace roll::core
