#include "worker/checkpoint/choose.hpp"

#include <algorithm>
#include <tuple>

namespace roll::checkpoint {
namespace {

bool newer(const Name& a, const Name& b) {
    return std::tie(a.step, a.writer) > std::tie(b.step, b.writer);
}

}  // namespace

Choice choose_newest(std::span<const std::filesystem::path> newest_first) {
    Choice choice;
    for (const std::filesystem::path& directory : newest_first) {
        auto manifest = verify(directory);
        if (manifest) {
            choice.directory = directory;
            choice.manifest = *std::move(manifest);
            return choice;
        }
        choice.skipped.push_back(directory);
        choice.reasons.push_back("the checkpoint " + directory.string() +
                                 " is skipped: " + manifest.error().message);
    }
    return choice;
}

std::vector<Name> to_delete(std::vector<Kept> recorded, std::int64_t keep,
                            const std::optional<Name>& resumed_from,
                            std::optional<std::int64_t> best_step) {
    std::sort(recorded.begin(), recorded.end(),
              [](const Kept& a, const Kept& b) { return newer(a.name, b.name); });
    std::vector<Name> doomed;
    std::int64_t usable_seen = 0;
    const bool any_usable =
        std::any_of(recorded.begin(), recorded.end(), [](const Kept& k) { return k.usable; });
    const auto progressed = [&](const Name& from) {
        return std::any_of(recorded.begin(), recorded.end(),
                           [&](const Kept& k) { return k.usable && newer(k.name, from); });
    };
    for (const Kept& kept : recorded) {
        const bool best = kept.usable && best_step == kept.name.step;
        if (best) best_step.reset();  // older ones of the same step are not
        if (kept.usable && ++usable_seen <= keep) continue;
        if (best) continue;
        if (!kept.usable && !any_usable) continue;
        if (resumed_from && kept.name == *resumed_from && !progressed(kept.name)) continue;
        doomed.push_back(kept.name);
    }
    return doomed;
}

}  // namespace roll::checkpoint
