#include "common/io/compat.hpp"

#include <algorithm>
#include <string_view>

#include "common/files.hpp"

namespace roll::io {

namespace {

std::string cleaned(const std::string& path) {
    std::string kept;
    for (std::size_t from = 0; from <= path.size();) {
        const std::size_t end = std::min(path.find(':', from), path.size());
        const std::string directory = path.substr(from, end - from);
        from = end + 1;
        if (path_exists(directory + "/" + kCompatMark)) continue;
        kept += (kept.empty() ? "" : ":") + directory;
    }
    return kept;
}

}  // namespace

std::vector<std::string> without_compat(std::vector<std::string> environment) {
    constexpr std::string_view kName = "PATH=";
    for (std::string& variable : environment)
        if (variable.starts_with(kName))
            variable = std::string(kName) + cleaned(variable.substr(kName.size()));
    return environment;
}

}  // namespace roll::io
