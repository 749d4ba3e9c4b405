#include "daemon/core/placement/segments.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "common/check.hpp"

namespace roll::core {
namespace {

using Workers = std::vector<WorkerId>;

// Groups the candidates by segment and keeps their order. Drops candidates whose segment is
// unknown.
std::map<std::string, Workers> by_segment(const std::vector<Candidate>& candidates,
                                          bool avoided_too) {
    std::map<std::string, Workers> segments;
    for (const Candidate& one : candidates) {
        const bool use = avoided_too || !one.avoid;
        if (use && !one.segment.empty()) segments[one.segment].push_back(one.worker);
    }
    return segments;
}

// Returns the smallest segment that has at least `count` workers; nullptr if there is none.
const Workers* tightest(const std::map<std::string, Workers>& segments, std::size_t count) {
    const Workers* best = nullptr;
    for (const auto& [name, workers] : segments) {
        const bool enough = workers.size() >= count;
        if (enough && (best == nullptr || workers.size() < best->size())) best = &workers;
    }
    return best;
}

// Chooses `count` workers in blocks. A block has `size` workers of one segment. Takes blocks first
// from the segments with the most blocks.
Workers blocks(const std::map<std::string, Workers>& segments, std::size_t count,
               std::size_t size) {
    std::vector<const Workers*> order;
    for (const auto& [name, workers] : segments) order.push_back(&workers);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](const Workers* workers) { return workers->size() / size; });
    Workers chosen;
    for (const Workers* workers : order) {
        const std::size_t whole = std::min(workers->size() / size * size, count - chosen.size());
        chosen.insert(chosen.end(), workers->begin(),
                      workers->begin() + static_cast<std::ptrdiff_t>(whole));
    }
    if (chosen.size() < count) chosen.clear();
    return chosen;
}

// Returns the first `levels` components of a segment's name: "spine1.leaf4" if the segment is
// "spine1.leaf4.rack7" and `levels` is 2.
std::string prefix(const std::string& segment, std::size_t levels) {
    std::size_t end = 0;
    for (; levels > 0 && end < segment.size(); --levels)
        end = std::min(segment.find('.', end + 1), segment.size());
    return segment.substr(0, end);
}

std::size_t deepest(const std::vector<Candidate>& candidates) {
    std::ptrdiff_t levels = 0;
    for (const Candidate& one : candidates)
        if (!one.segment.empty())
            levels = std::max(levels, 1 + std::ranges::count(one.segment, '.'));
    return static_cast<std::size_t>(levels);
}

// Chooses `count` workers in one area of the network. The segments of an area have names with the
// same first `levels` components. Takes the smallest area with enough workers, and in this area the
// largest segments first.
Workers within(const std::vector<Candidate>& candidates, std::size_t count, std::size_t levels) {
    std::map<std::string, std::vector<Candidate>> parts;
    for (const Candidate& one : candidates)
        if (!one.avoid && !one.segment.empty()) parts[prefix(one.segment, levels)].push_back(one);
    const std::vector<Candidate>* best = nullptr;
    for (const auto& [name, part] : parts) {
        const bool enough = part.size() >= count;
        if (enough && (best == nullptr || part.size() < best->size())) best = &part;
    }
    return best == nullptr ? Workers{} : blocks(by_segment(*best, false), count, 1);
}

// Adds spares after the members. Takes the spares from the members' segments if possible, else from
// any segment.
Workers with_spares(Workers members, const std::vector<Candidate>& candidates, int spares) {
    if (members.empty() || spares == 0) return members;
    const std::set<WorkerId> taken(members.begin(), members.end());
    ROLL_CHECK(taken.size() == members.size());
    std::set<std::string> used;
    for (const Candidate& one : candidates) {
        if (taken.contains(one.worker)) used.insert(one.segment);
    }
    Workers near, far;
    for (const Candidate& one : candidates) {
        if (taken.contains(one.worker)) continue;
        (used.contains(one.segment) && !one.avoid ? near : far).push_back(one.worker);
    }
    near.insert(near.end(), far.begin(), far.end());
    if (std::ssize(near) < spares) return {};
    members.insert(members.end(), near.begin(), near.begin() + spares);
    return members;
}

}  // namespace

Workers choose_workers(const std::vector<Candidate>& candidates, const spec::Resources& wanted) {
    if (std::ssize(candidates) < wanted.workers()) return {};
    const auto nodes = static_cast<std::size_t>(wanted.nodes);
    for (const bool avoided_too : {false, true}) {
        if (wanted.segment <= 1) break;
        const auto segments = by_segment(candidates, avoided_too);
        const Workers* one = tightest(segments, nodes);
        Workers members = one ? Workers(one->begin(), one->begin() + wanted.nodes)
                              : blocks(segments, nodes, static_cast<std::size_t>(wanted.segment));
        members = with_spares(std::move(members), candidates, wanted.spares);
        if (!members.empty() || avoided_too) return members;
    }
    for (std::size_t levels = deepest(candidates); nodes > 1 && levels > 0; --levels) {
        Workers members = within(candidates, nodes, levels);
        if (!members.empty()) return with_spares(std::move(members), candidates, wanted.spares);
    }
    Workers chosen;
    for (int i = 0; i < wanted.workers(); ++i)
        chosen.push_back(candidates[static_cast<std::size_t>(i)].worker);
    return chosen;
}

}  // namespace roll::core
