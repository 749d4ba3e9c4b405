// The names of existing secrets. State never contains their values (daemon/secrets).
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>

#include "common/spec/job/job.hpp"

namespace roll::core {

struct SecretName {
    std::string user;  // user that owns the secret
    std::string name;  // name of the environment variable that gets the value
    friend auto operator<=>(const SecretName&, const SecretName&) = default;
};
using SecretNames = std::set<SecretName>;

// Returns the first secret that the job names and that `user` does not have in `names`; nullopt if
// none is missing.
std::optional<std::string> missing_secret(const SecretNames& names, const std::string& user,
                                          const spec::JobSpec& spec);

}  // namespace roll::core
