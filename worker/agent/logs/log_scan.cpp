#include "worker/agent/logs/log_scan.hpp"

#include <fstream>
#include <set>

#include "common/pattern.hpp"

namespace roll::agent {
namespace {

constexpr std::streamoff kTailBytes = 4 << 20;
constexpr std::size_t kLineBytesMax = 4096;

std::string tail_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    if (!in) return {};
    const std::streamoff size = in.tellg();
    const std::streamoff from = std::max<std::streamoff>(size - kTailBytes, 0);
    std::string text(static_cast<std::size_t>(size - from), '\0');
    in.seekg(from);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

}  // namespace

std::vector<int> scan_logs(const std::vector<std::string>& patterns,
                           const std::vector<std::string>& files) {
    std::set<int> found;
    for (const std::string& file : files) {
        const std::string text = tail_of(file);
        for (int i = 0; i < static_cast<int>(patterns.size()); ++i) {
            const auto pattern = Pattern::make(patterns[static_cast<std::size_t>(i)]);
            if (!pattern || found.contains(i)) continue;
            for (std::size_t from = 0; from < text.size() && !found.contains(i);) {
                const std::size_t end = std::min(text.find('\n', from), text.size());
                const std::string_view line(text.data() + from,
                                            std::min(end - from, kLineBytesMax));
                if (pattern->occurs_in(line)) found.insert(i);
                from = end + 1;
            }
        }
    }
    return {found.begin(), found.end()};
}

}  // namespace roll::agent
