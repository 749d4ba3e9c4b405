#include "daemon/config/config.hpp"

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/json.hpp"
#include "common/spec/check/parse_policy.hpp"
#include "common/spec/schema/problem.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::config {

// Paths of a system installation, as in systemd/rolld.service. Administrators expect the
// configuration of a service in /etc.
constexpr const char *kSystemState = "/var/lib/roll", *kSystemConfig = "/etc/roll/rolld.yaml";

Result<Config> read_config(const std::filesystem::path& path) {
    ROLL_TRY(const std::string text, read_file(path));
    ROLL_TRY(const std::vector<Json> documents, yaml::read(text, path.string()));
    if (documents.size() > 1)
        return fail(ErrorCode::InvalidArgument,
                    path.string() + " contains more than one YAML document");
    spec::ParsedPolicy parsed =
        spec::parse_policy(documents.empty() ? "{}" : dump(documents.front()),
                           std::filesystem::absolute(path).parent_path());
    if (parsed.problems.empty()) return Config{std::move(parsed.policy), std::move(parsed.http)};
    std::string message = path.string() + " cannot be used:";
    for (const spec::Problem& problem : parsed.problems)
        message += fmt::format("\n  {} {}", problem.path, problem.message);
    return fail(ErrorCode::InvalidArgument, message,
                "rolld --check-config --config " + path.string());
}

Result<Config> find_config(const std::string& given, const std::filesystem::path& directory) {
    if (!given.empty()) return read_config(given);
    std::error_code error;
    const auto own = directory / "rolld.yaml";
    if (std::filesystem::exists(own, error)) return read_config(own);
    if (directory == kSystemState && std::filesystem::exists(kSystemConfig, error))
        return read_config(kSystemConfig);
    return Config{};
}

}  // namespace roll::config
