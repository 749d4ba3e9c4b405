#include "common/hub_cache.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "common/files.hpp"

namespace roll {
namespace {

namespace fs = std::filesystem;

std::string variable_text(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

std::ptrdiff_t hub_name_parts(const std::string& text) {
    const auto allowed = [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
    };
    if (text.empty() || !std::ranges::all_of(text, allowed)) return 0;
    for (const fs::path& part : fs::path(text))
        if (part.empty() || part == "/" || part.native().starts_with('.')) return 0;
    return 1 + std::ranges::count(text, '/');
}

fs::path hub_cache() {
    if (const std::string set = variable_text("HF_HUB_CACHE"); !set.empty()) return set;
    if (const std::string set = variable_text("HF_HOME"); !set.empty())
        return fs::path(set) / "hub";
    const std::string cache = variable_text("XDG_CACHE_HOME");
    const fs::path base =
        cache.empty() ? fs::path(variable_text("HOME")) / ".cache" : fs::path(cache);
    return base / "huggingface" / "hub";
}

std::optional<std::string> cached_snapshot(const std::string& name, HubKind kind) {
    const std::ptrdiff_t parts = hub_name_parts(name);
    if (parts == 0 || parts > 2) return std::nullopt;
    std::string folder = (kind == HubKind::Model ? "models--" : "datasets--") + name;
    if (const std::size_t at = folder.find('/'); at != std::string::npos)
        folder.replace(at, 1, "--");
    const fs::path own = hub_cache() / folder;
    std::error_code error;
    if (auto commit = read_file(own / "refs" / "main")) {
        while (!commit->empty() && std::isspace(static_cast<unsigned char>(commit->back())) != 0)
            commit->pop_back();
        const fs::path snapshot = own / "snapshots" / *commit;
        if (!commit->empty() && fs::is_directory(snapshot, error)) return snapshot;
    }
    std::vector<std::string> snapshots;
    for (auto at = fs::directory_iterator(own / "snapshots", error); at != fs::directory_iterator();
         at.increment(error)) {
        if (error) break;
        snapshots.push_back(at->path());
    }
    return snapshots.size() == 1 ? std::optional(snapshots.front()) : std::nullopt;
}

}  // namespace roll
