#include "worker/train/search/search.hpp"

#include <algorithm>
#include <tuple>

#include "common/counted.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Limits that keep the search below two seconds: the numbers of actions and of layouts that are
// simulated, and the number of layouts that are simulated although their estimated memory exceeds
// the limit.
constexpr std::int64_t kWork = 6'000'000;
constexpr std::size_t kSimulated = 160, kOverLimit = 40;

// Two times count as equal if they differ by less than this factor.
constexpr double kEqual = 1.001;

std::string legal_rules(const std::vector<std::string>& rules) {
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, rules.size()); ++i)
        text += "; " + rules[i];
    return text;
}

// Orders the layouts. First come the layouts whose estimated memory is within the limit, the
// fastest first. The other layouts follow, ordered by memory, the least first.
void order(std::vector<ScoredLayout>& all, std::int64_t limit) {
    const auto key = [&](const ScoredLayout& one) {
        const auto memory = static_cast<double>(one.score.memory);
        const bool over = limit > 0 && one.score.memory > limit;
        return std::tuple(over, over ? memory : one.score.time, memory);
    };
    std::ranges::stable_sort(all, {}, key);
}

// Returns whether `a` is better than `b`.
bool is_better(const ScoredLayout& a, const ScoredLayout& b) {
    if (a.score.time * kEqual < b.score.time) return true;
    if (b.score.time * kEqual < a.score.time) return false;
    return a.score.memory < b.score.memory;
}

// Adds a layout. If the list has a layout with the same mesh, keeps only the better of the two.
void add(std::vector<ScoredLayout>& list, const ScoredLayout& one) {
    const auto same = std::ranges::find_if(
        list, [&](const ScoredLayout& other) { return same_mesh(one.layout, other.layout); });
    if (same == list.end())
        list.push_back(one);
    else if (is_better(one, *same))
        *same = one;
}

void keep_best(std::vector<ScoredLayout>& list) {
    // Select the best layouts one after the other instead of sorting, because is_better() is not a
    // strict weak order: this function treats close times as equal.
    const std::size_t count = std::min(kBest, list.size());
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = i + 1; j < list.size(); ++j)
            if (is_better(list[j], list[i])) std::swap(list[i], list[j]);
    list.resize(count);
}

// Returns whether the list has this layout with less recomputation.
bool is_dominated(const std::vector<ScoredLayout>& list, const Layout& layout) {
    return std::ranges::any_of(list, [&](const ScoredLayout& one) {
        Layout same = one.layout;
        same.recompute = layout.recompute;
        return same == layout && one.layout.recompute < layout.recompute;
    });
}

}  // namespace

SearchResult search_layouts(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                            const SearchSpace& space, std::int64_t limit) {
    LegalLayouts legal = legal_layouts(spec, model, space);
    if (legal.layouts.empty())
        throw RankFailure(2, "no layout of " + counted(space.ranks, "rank") +
                                 " is possible for this job" + legal_rules(legal.refused));
    SearchResult result;
    result.legal = legal.layouts.size();
    result.rules = std::move(legal.refused);
    spec::TrainSpec tried = spec;
    // Simulate without the memory limit, and apply the limit to each layout and schedule below.
    // Otherwise, a layout above the limit would fail, and its memory would be unknown. With
    // Recompute::Auto, the limit stays, because it decides what layers recompute.
    if (spec.parallel.recompute != spec::Recompute::Auto) tried.parallel.memory_limit = 0;
    std::vector<ScoredLayout> all;
    const JobBytes bytes = job_bytes(spec, model, space.on_gpu);
    for (const Layout& layout : legal.layouts) {
        set_layout(tried, layout);
        all.push_back({layout, estimate(tried, model, bytes)});
    }
    order(all, limit);
    std::vector<ScoredLayout> fitting;  // all layouts that fit
    std::int64_t work = 0;
    std::size_t over = 0;
    for (const ScoredLayout& one : all) {
        const bool is_over = limit > 0 && one.score.memory > limit;
        if (result.simulated >= kSimulated || (is_over && over >= kOverLimit)) break;
        if (is_dominated(fitting, one.layout)) continue;
        set_layout(tried, one.layout);
        if (work + work_of(tried) > kWork) continue;
        work += work_of(tried);
        over += is_over ? 1 : 0;
        ScoredLayout scored{one.layout, {}};
        try {
            scored.score = measure(tried, model, space.on_gpu);
        } catch (const RankFailure& failure) {
            result.rules.push_back(layout_text(one.layout) + ": " + failure.what());
            continue;
        }
        if (result.simulated++ == 0 || scored.score.memory < result.smallest.score.memory)
            result.smallest = scored;
        if (limit > 0 && scored.score.memory > limit) {
            add(result.refused, scored);
            continue;
        }
        fitting.push_back(scored);
        add(result.best, scored);
    }
    if (result.simulated == 0)
        throw RankFailure(2, "no layout of " + counted(space.ranks, "rank") +
                                 " is possible for this job" + legal_rules(result.rules));
    keep_best(result.best);
    keep_best(result.refused);
    return result;
}

}  // namespace roll::train
