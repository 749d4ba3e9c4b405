// The feed-forward block of a layer with experts: a router, and experts that are feed-forward
// blocks themselves. Each row goes through the experts that the router chooses, and the block's
// output is the sum of their outputs, each multiplied by its weight. Stateless, like Linear.
//
// With tensor parallelism, each rank has a part of every expert's inner columns, and all ranks
// choose the same experts for all rows. The parts of the outputs are summed over the ranks.
#pragma once

#include <cstdint>

#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/row_split.hpp"
#include "worker/train/ops/router.hpp"

namespace roll::train {

// Sums over the micro-batches of one rank in a step, and over the rank's layers with experts.
struct ExpertLoads {
    double balance = 0;  // mean balance loss of the micro-batches, without its factor
    double fullest = 0;  // rows of the fullest expert / the mean over the experts
};

// How a micro-batch counts in the balance loss. In an evaluation, it does not count.
struct Balance {
    double scale = 0;              // factor of the micro-batch's balance loss
    double factor = 0;             // as `scale`, times the factor of the balance loss
    ExpertLoads* loads = nullptr;  // null: not counted
};

struct ExpertsSaved {
    ops::Routing routing;
    at::Tensor gate_up_NJ;  // in the order of the experts
};

struct Experts {
    const Parameters& parameters;
    ops::RouterRule rule;
    std::int64_t experts = 0;
    int router = -1;  // index of the router's weight; the weights of the first expert follow
    Communicator* tp = nullptr;
    RowSplit rows = {};
    int layer = -1;      // index of the decoder layer
    bool again = false;  // true: backward recomputes this forward pass; for the tags

    // Computes the values that backward needs: the routing, and the gate and up products.
    ExpertsSaved begin(const at::Tensor& h_MC) const;

    // Returns past_MC plus the block's output.
    at::Tensor finish(const at::Tensor& past_MC, const ExpertsSaved& saved) const;

    // Returns dh_MC. Passes to `contribute` the functions that compute the gradients of all
    // weights, also of experts without rows. `factor`: factor of the balance loss.
    at::Tensor backward(const at::Tensor& dy_MC, const at::Tensor& h_MC, const ExpertsSaved& saved,
                        double factor, const Contribute& contribute) const;

    void count(const ExpertsSaved& saved, const Balance& balance) const;

  private:
    struct Grads {
        at::Tensor dx_NC, dweights_N;
    };
    int gate_up(std::int64_t expert) const { return router + 1 + static_cast<int>(2 * expert); }
    int down(std::int64_t expert) const { return gate_up(expert) + 1; }
    bool is_shared() const { return tp != nullptr && tp->size() > 1; }
    at::Tensor all_rows(const at::Tensor& own_MC, Site site, bool repeats) const;
    at::Tensor summed(const at::Tensor& part_MC, Site site, bool repeats) const;
    void owe(int weight, const at::Tensor& dy_MO, const at::Tensor& x_MI,
             const Contribute& contribute) const;
    void expert_backward(std::int64_t expert, const at::Tensor& dy_MC, const at::Tensor& h_MC,
                         const ExpertsSaved& saved, const Grads& grads,
                         const Contribute& contribute) const;
};

}  // namespace roll::train
