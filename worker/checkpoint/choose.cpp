#include "worker/checkpoint/choose.hpp"

#include <algorithm>
#include <tuple>

#include "common/files.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/checkpoint/state.hpp"

namespace roll::checkpoint {
namespace {

bool newer(const Name& a, const Name& b) {
    return std::tie(a.step, a.writer) > std::tie(b.step, b.writer);
}

void sort_newest_first(std::vector<Kept>& recorded) {
    std::sort(recorded.begin(), recorded.end(),
              [](const Kept& a, const Kept& b) { return newer(a.name, b.name); });
}

bool is_needed_to_resume(const Kept& kept, const std::vector<Kept>& recorded,
                         const Retention& rule) {
    return rule.resumed_from == kept.name &&
           std::none_of(recorded.begin(), recorded.end(), [&](const Kept& other) {
               return other.usable && newer(other.name, kept.name);
           });
}

bool has_optimizer(const Manifest& manifest) {
    return std::ranges::any_of(manifest.files, is_optimizer_state, &FileEntry::path);
}

bool is_of_step(const std::filesystem::path& directory, std::int64_t step) {
    const auto name = parse_final_name(directory.filename().string());
    return name && name->step == step;
}

}  // namespace

std::optional<std::int64_t> best_step(std::span<const std::filesystem::path> newest_first) {
    for (const std::filesystem::path& directory : newest_first) {
        const auto text = read_file(directory / kStateFile);
        if (!text) continue;
        const auto state = decode_state(*text);
        if (!state) continue;
        return state->best.value ? std::optional(state->best_step) : std::nullopt;
    }
    return std::nullopt;
}

std::vector<std::filesystem::path> with_step_first(
    std::span<const std::filesystem::path> newest_first, std::int64_t step) {
    std::vector<std::filesystem::path> order(newest_first.begin(), newest_first.end());
    std::stable_partition(order.begin(), order.end(),
                          [&](const auto& directory) { return is_of_step(directory, step); });
    return order;
}

Choice choose_newest(std::span<const std::filesystem::path> newest_first, For use,
                     const Verify& verify_one) {
    Choice choice;
    for (const std::filesystem::path& directory : newest_first) {
        auto manifest = verify_one(directory);
        if (manifest && (use == For::Weights || has_optimizer(*manifest))) {
            choice.directory = directory;
            choice.manifest = *std::move(manifest);
            return choice;
        }
        choice.skipped.push_back(directory);
        if (!manifest) choice.damaged.push_back(directory);
        choice.reasons.push_back("the checkpoint " + directory.string() + " is skipped: " +
                                 (manifest ? "the optimizer state of this checkpoint was deleted"
                                           : manifest.error().message));
    }
    return choice;
}

std::vector<Name> to_delete(std::vector<Kept> recorded, const Retention& rule) {
    sort_newest_first(recorded);
    std::vector<Name> doomed;
    std::int64_t usable_seen = 0;
    // The loop goes from newer to older checkpoints, and `step_before` is the step of the usable
    // checkpoint that it visited last. If the next usable checkpoint has a different step, it is
    // the newest usable checkpoint of that step.
    std::optional<std::int64_t> step_before;
    const bool any_usable =
        std::any_of(recorded.begin(), recorded.end(), [](const Kept& k) { return k.usable; });
    for (const Kept& kept : recorded) {
        const std::int64_t step = kept.name.step;
        if (!kept.usable && !any_usable) continue;
        if (kept.usable && ++usable_seen <= rule.keep) {
            step_before = step;
            continue;
        }
        const bool first_of_step = kept.usable && step_before != step;
        if (kept.usable) step_before = step;
        if (first_of_step && rule.best_step == step) continue;
        if (first_of_step && rule.keep_every > 0 && step % rule.keep_every == 0) continue;
        if (is_needed_to_resume(kept, recorded, rule)) continue;
        doomed.push_back(kept.name);
    }
    return doomed;
}

std::vector<Name> to_strip(std::vector<Kept> recorded, const Retention& rule) {
    sort_newest_first(recorded);
    std::vector<Name> stripped;
    std::int64_t seen = 0;
    for (const Kept& kept : recorded) {
        if (rule.optimizer == 0 || !kept.usable || !kept.optimizer) continue;
        if (++seen <= rule.optimizer || is_needed_to_resume(kept, recorded, rule)) continue;
        stripped.push_back(kept.name);
    }
    return stripped;
}

}  // namespace roll::checkpoint
