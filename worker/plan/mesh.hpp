// Computes a rank's coordinates in the mesh of parallel axes, and the process groups along each
// axis. Pure arithmetic, no torch.
//
// Ranks are numbered along tp first, then along cp, dp and pp (Megatron's order). The ranks of a tp
// group therefore have adjacent numbers, and are usually on one node. ep is not an axis of the
// mesh: the ep groups are parts of the dp groups.
#pragma once

#include <vector>

#include "common/error.hpp"
#include "common/spec/train/train.hpp"

namespace roll::plan {

enum class Axis { Tp, Cp, Dp, Pp };

struct Place {
    int tp = 0;
    int cp = 0;
    int dp = 0;
    int pp = 0;
    friend bool operator==(const Place&, const Place&) = default;
};

class Mesh {
  public:
    // Makes the mesh. Fails with InvalidArgument if the size of an axis is below 1, or if the
    // product of the sizes is not `world_size`; the message has the numbers.
    static Result<Mesh> make(const spec::ParallelSpec& parallel, int world_size);

    int world_size() const { return tp_ * cp_ * dp_ * pp_; }
    int size(Axis axis) const;

    Place place(int rank) const;
    int rank(const Place& place) const;

    // Returns the process group of `rank` along `axis`: the ranks whose coordinates on all other
    // axes equal those of `rank`, ordered by their coordinate on `axis`.
    std::vector<int> group(int rank, Axis axis) const;

    // Returns the ranks that have the same part of the model as `rank`: those with the same
    // coordinates on tp and pp. The ranks of a cp group are neighbours.
    std::vector<int> replicas(int rank) const;

  private:
    Mesh(int tp, int cp, int dp, int pp) : tp_(tp), cp_(cp), dp_(dp), pp_(pp) {}
    int tp_, cp_, dp_, pp_;
};

}  // namespace roll::plan
