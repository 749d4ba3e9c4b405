#include "worker/train/data/sample_parts.hpp"

#include <algorithm>
#include <numeric>

namespace roll::train {
namespace {

// Distributes items over bins so that the bins have similar total costs. A bin can hold `room`
// items. Returns the items of each bin. Requires that there are at most bins x room items.
std::vector<std::vector<std::int64_t>> packed(std::span<const double> costs, std::size_t bins,
                                              std::size_t room) {
    std::vector<std::int64_t> order(costs.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int64_t item) {
        return costs[static_cast<std::size_t>(item)];
    });
    std::vector<std::vector<std::int64_t>> filled(bins);
    std::vector<double> load(bins);
    for (const std::int64_t item : order) {
        std::size_t best = bins;
        for (std::size_t bin = 0; bin < bins; ++bin)
            if (filled[bin].size() < room && (best == bins || load[bin] < load[best])) best = bin;
        filled[best].push_back(item);
        load[best] += costs[static_cast<std::size_t>(item)];
    }
    for (std::vector<std::int64_t>& items : filled) std::ranges::sort(items);
    return filled;
}

std::vector<ReplicaPart> in_order(const PartRules& rules) {
    std::vector<ReplicaPart> parts;
    std::int64_t sample = 0;
    for (int replica = 0; replica < rules.replicas; ++replica) {
        ReplicaPart& part = parts.emplace_back();
        for (std::int64_t m = 0; m < rules.microbatches; ++m) {
            part.emplace_back(static_cast<std::size_t>(rules.micro_batch_size));
            std::iota(part.back().begin(), part.back().end(), sample);
            sample += rules.micro_batch_size;
        }
    }
    return parts;
}

std::vector<ReplicaPart> balanced(const PartRules& rules, std::span<const SampleSize> sizes) {
    const auto microbatches = static_cast<std::size_t>(rules.microbatches);
    const auto replicas = static_cast<std::size_t>(rules.replicas);
    std::vector<double> costs;
    for (const SampleSize& size : sizes) costs.push_back(size.cost);
    const auto bins =
        packed(costs, replicas * microbatches, static_cast<std::size_t>(rules.micro_batch_size));
    std::vector<double> loads;
    for (const std::vector<std::int64_t>& bin : bins) {
        double load = 0;
        for (const std::int64_t sample : bin) load += costs[static_cast<std::size_t>(sample)];
        loads.push_back(load);
    }
    std::vector<ReplicaPart> parts;
    for (const std::vector<std::int64_t>& own : packed(loads, replicas, microbatches)) {
        ReplicaPart& part = parts.emplace_back();
        for (const std::int64_t bin : own) part.push_back(bins[static_cast<std::size_t>(bin)]);
        std::ranges::sort(part);
    }
    return parts;
}

// Splits the micro-batches that have too many tokens.
ReplicaPart split(const ReplicaPart& part, const PartRules& rules,
                  std::span<const SampleSize> sizes) {
    ReplicaPart small;
    for (const std::vector<std::int64_t>& samples : part) {
        small.emplace_back();
        std::int64_t tokens = 0;
        for (const std::int64_t sample : samples) {
            const std::int64_t size = sizes[static_cast<std::size_t>(sample)].tokens;
            if (!small.back().empty() && tokens + size > rules.tokens_most) {
                small.emplace_back();
                tokens = 0;
            }
            small.back().push_back(sample);
            tokens += size;
        }
    }
    return small;
}

}  // namespace

std::vector<ReplicaPart> parts_of_batch(const PartRules& rules, std::span<const SampleSize> sizes) {
    std::vector<ReplicaPart> parts = rules.balance ? balanced(rules, sizes) : in_order(rules);
    if (rules.tokens_most == 0) return parts;
    auto most = static_cast<std::size_t>(rules.microbatches);
    for (ReplicaPart& part : parts) {
        part = split(part, rules, sizes);
        most = std::max(most, part.size());
    }
    // If a split has increased the number of micro-batches, round this number up to a multiple of
    // rules.multiple. The original number is never rounded, because the job's checks have accepted
    // it.
    const auto multiple = static_cast<std::size_t>(rules.multiple);
    if (most > static_cast<std::size_t>(rules.microbatches))
        most = (most + multiple - 1) / multiple * multiple;
    for (ReplicaPart& part : parts) part.resize(most);
    return parts;
}

}  // namespace roll::train
