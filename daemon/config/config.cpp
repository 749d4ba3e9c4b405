#include "daemon/config/config.hpp"

#include <algorithm>
#include <string_view>

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

// Returns whether a file consists only of comments, like the file that the package installs.
// Returns false for a file without a comment, because its contents may have been lost.
static bool has_only_comments(std::string_view text) {
    bool has_comment = false;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t first = line.find_first_not_of(" \t\r");
        if (first == line.npos) continue;
        if (line[first] != '#') return false;
        has_comment = true;
    }
    return has_comment;
}

Result<Config> read_config(const std::filesystem::path& path) {
    ROLL_TRY(const std::string text, read_file(path));
    if (has_only_comments(text)) return Config{};
    ROLL_TRY(const std::vector<Json> documents, yaml::read(text, path.string()));
    if (documents.size() > 1)
        return fail(ErrorCode::InvalidArgument,
                    path.string() + " contains more than one YAML document; allowed: one");
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
    const auto own = directory / "rolld.yaml";
    if (path_exists(own)) return read_config(own);
    if (directory == kSystemState && path_exists(kSystemConfig)) return read_config(kSystemConfig);
    return Config{};
}

}  // namespace roll::config
