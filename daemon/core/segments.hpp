// Chooses the workers of a gang among candidates: workers in one network segment (a switch, a
// rack, an NVLink domain) are kept together. A segment's name may show its location, widest part
// first: "spine1.leaf4.rack7".
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job.hpp"

namespace roll::core {

struct Candidate {
    WorkerId worker;
    std::string segment{};  // empty: not known
    bool avoid = false;
};

// Chooses from `candidates`, best first. Returns the members in the order of node ranks, then the
// spares; empty if they do not fit as a whole. With `segment` N, every N consecutive members are in
// one segment, and as few segments as possible are used. Without it, all members are in one segment
// if a segment has enough workers that need not be avoided; else under one leaf, else under one
// spine.
std::vector<WorkerId> choose_workers(const std::vector<Candidate>& candidates,
                                     const spec::Resources& wanted);

}  // namespace roll::core
