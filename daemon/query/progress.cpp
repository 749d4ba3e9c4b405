#include "daemon/query/progress.hpp"

#include "common/protocol/progress.hpp"

namespace roll::query {

Progress read_progress(const std::string& text, const std::string& node) {
    Progress progress;
    auto read = protocol::read_progress(text, protocol::kHeardBytesMax);
    if (!read) return progress;
    const Json ranks = read->value("ranks", Json());
    read->erase("ranks");
    progress.told = *std::move(read);
    if (!ranks.is_array()) return progress;
    for (const Json& one : ranks) {
        JsonReader r(one, "rank");
        const auto rank = r.get<std::int64_t>("rank");
        const auto step = r.get<std::int64_t>("step");
        const auto own_ms = r.get<std::int64_t>("own_ms");
        if (r.finish_lenient())
            progress.ranks.push_back(
                {{"rank", rank}, {"node", node}, {"step", step}, {"own_ms", own_ms}});
    }
    return progress;
}

}  // namespace roll::query
