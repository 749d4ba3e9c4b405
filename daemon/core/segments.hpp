// Which workers a gang gets, of those that can hold a member: what shares a network segment (a
// switch, a rack, an NVLink domain) is kept together. A segment's name may say where it lies:
// "spine1.leaf4.rack7", the widest part first.
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

// Of candidates, best first: the members in the order of node ranks, then the spares. With
// `segment` N each N members in a row lie in one segment, in as few segments as will do. Without it
// all lie in one if it has enough that need not be avoided, else under one leaf, else under one
// spine. Empty: they do not fit whole.
std::vector<WorkerId> choose_workers(const std::vector<Candidate>& candidates,
                                     const spec::Resources& wanted);

}  // namespace roll::core
