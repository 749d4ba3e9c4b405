#include "daemon/core/placement/find_places.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "common/check.hpp"
#include "daemon/core/placement/gpu_affinity.hpp"
#include "daemon/core/placement/segments.hpp"

namespace roll::core {

// Returns the sum of the free slots and the free GPUs, in hundredths of a slot or GPU.
static int amount(const FreeSlots& free) {
    return std::accumulate(free.gpus.begin(), free.gpus.end(),
                           kWholeGpu * static_cast<int>(free.slots.size()));
}

std::vector<Place> find_places(const spec::Resources& wanted, const Capacity& all,
                               const std::set<WorkerId>& avoid) {
    std::vector<std::tuple<bool, int, WorkerId>> order;
    for (const auto& [id, free] : all) {
        if (fits(wanted, free)) order.push_back({avoid.contains(id), amount(free), id});
    }
    std::ranges::sort(order);
    std::vector<Candidate> candidates;
    for (const auto& [avoided, size, id] : order)
        candidates.push_back({id, all.at(id).segment, avoided});
    std::vector<Place> places;
    for (const WorkerId id : choose_workers(candidates, wanted)) {
        places.push_back(place_on(id, all.at(id), wanted));
        places.back().spare = std::ssize(places) > wanted.nodes;
    }
    ROLL_CHECK(places.empty() || std::ssize(places) == wanted.workers());
    return places;
}

}  // namespace roll::core
