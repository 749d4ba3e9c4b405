#include "worker/plan/mesh.hpp"

#include <string>

#include "common/check.hpp"

namespace roll::plan {
namespace {

int& coordinate(Place& place, Axis axis) {
    switch (axis) {
        case Axis::Tp: return place.tp;
        case Axis::Cp: return place.cp;
        case Axis::Dp: return place.dp;
        case Axis::Pp: break;
    }
    return place.pp;
}

}  // namespace

Result<Mesh> Mesh::make(const spec::ParallelSpec& p, int world_size) {
    const std::string axes = "tp " + std::to_string(p.tp) + ", cp " + std::to_string(p.cp) +
                             ", dp " + std::to_string(p.dp) + ", pp " + std::to_string(p.pp);
    if (p.tp < 1 || p.cp < 1 || p.dp < 1 || p.pp < 1)
        return fail(ErrorCode::InvalidArgument, "every axis must be at least 1: " + axes);
    const Mesh mesh(p.tp, p.cp, p.dp, p.pp);
    if (mesh.world_size() != world_size) {
        return fail(ErrorCode::InvalidArgument, axes + " need world size " +
                                                    std::to_string(mesh.world_size()) +
                                                    ", but it is " + std::to_string(world_size));
    }
    return mesh;
}

int Mesh::size(Axis axis) const {
    Place sizes{tp_, cp_, dp_, pp_};
    return coordinate(sizes, axis);
}

Place Mesh::place(int rank) const {
    ROLL_CHECK(rank >= 0 && rank < world_size());
    return {rank % tp_, rank / tp_ % cp_, rank / (tp_ * cp_) % dp_, rank / (tp_ * cp_ * dp_)};
}

int Mesh::rank(const Place& place) const {
    return ((place.pp * dp_ + place.dp) * cp_ + place.cp) * tp_ + place.tp;
}

std::vector<int> Mesh::group(int rank, Axis axis) const {
    Place at = place(rank);
    std::vector<int> ranks;
    for (int i = 0; i < size(axis); ++i) {
        coordinate(at, axis) = i;
        ranks.push_back(this->rank(at));
    }
    return ranks;
}

std::vector<int> Mesh::replicas(int rank) const {
    std::vector<int> ranks;
    for (const int first : group(rank - place(rank).cp * tp_, Axis::Dp))
        for (const int one : group(first, Axis::Cp)) ranks.push_back(one);
    return ranks;
}

}  // namespace roll::plan
