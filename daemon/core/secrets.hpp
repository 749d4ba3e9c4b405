// The names of existing secrets. Their values are never in State (daemon/secrets).
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>

#include "common/spec/job.hpp"

namespace roll::core {

struct State;

struct SecretName {
    std::string user;  // owner
    std::string name;  // name of the environment variable
    friend auto operator<=>(const SecretName&, const SecretName&) = default;
};
using SecretNames = std::set<SecretName>;

// Returns the first secret of the job that its user does not have; nullopt if none is missing.
std::optional<std::string> missing_secret(const State& state, const std::string& user,
                                          const spec::JobSpec& spec);

}  // namespace roll::core
