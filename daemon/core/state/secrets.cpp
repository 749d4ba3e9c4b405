#include "daemon/core/state/secrets.hpp"

#include <algorithm>

namespace roll::core {

std::optional<std::string> missing_secret(const SecretNames& names, const std::string& user,
                                          const spec::JobSpec& spec) {
    const auto missing = std::ranges::find_if(spec.secrets, [&](const std::string& name) {
        return !names.contains({user, name});
    });
    return missing == spec.secrets.end() ? std::nullopt : std::optional(*missing);
}

}  // namespace roll::core
