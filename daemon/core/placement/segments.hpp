// Chooses the workers of a gang from candidates. Workers in one network segment (a switch, a rack,
// an NVLink domain) are kept together. The name of a segment may show its location, beginning with
// the largest area: "spine1.leaf4.rack7".
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/spec/job/job.hpp"

namespace roll::core {

struct Candidate {
    WorkerId worker;
    std::string segment{};  // network segment; empty: unknown
    bool avoid = false;
};

// Chooses from `candidates`, which are sorted from best to worst. Returns the members in the order
// of node ranks, then the spares; empty if the gang does not fit as a whole.
//
// If the job sets `segment` to N > 1, every N consecutive members are in one segment, and as few
// segments as possible are used. Otherwise all members are in the smallest area of the network that
// has enough workers without `avoid`: in one segment, else under one leaf switch, else under one
// spine switch. If no area has enough, takes the best candidates.
std::vector<WorkerId> choose_workers(const std::vector<Candidate>& candidates,
                                     const spec::Resources& wanted);

}  // namespace roll::core
