// Counts the values that a layer saves from forward to backward, and the values that its backward
// needs in addition. All numbers are elements of one micro-batch on one rank. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/exchange_peak.hpp"
#include "worker/plan/recompute.hpp"

namespace roll::plan {

// Returns the number of tokens of a micro-batch on one rank. The ranks of a context-parallel group
// share each sequence, which is padded (train/model/context.hpp).
std::int64_t rank_tokens(const spec::TrainSpec& spec);

// Numbers of rows: `inner` inside the attention and feed-forward blocks, `outer` between them. They
// differ only with sequence parallelism.
struct Rows {
    std::int64_t inner = 0, outer = 0;
};

// Returns the sizes of the values that a layer saves and that may be stored in the gradients'
// memory (spare_room.hpp). The order is that of forward: q, k, v, the attention output, the input
// of the second norm, gate and up, the input of the next layer. Values that backward recomputes
// (`again`) are left out, because forward does not save them.
std::vector<std::int64_t> layer_saved(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                      const LayerRecompute& again);

// Returns the size of the values that a layer saves outside the gradients' memory:
// - copies of q, k and v if documents are kept apart (`segments`);
// - the inputs of qk-norms;
// - with experts, the values of the feed-forward block, and the input of the next layer;
// - the inputs of post-norms. A layer that is recomputed as a whole does not save these inputs. It
//   saves the output of its last post-norm, which is the input of the next layer.
std::int64_t layer_saved_elsewhere(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                   const LayerRecompute& again);

// Returns the size of all values that a layer saves.
std::int64_t layer_held(const spec::ModelConfig& m, const Rows& rows, bool segments,
                        const LayerRecompute& again);

// Returns the recomputation of a layer; if `all` is empty, the layer has no recomputation.
LayerRecompute layer_of(const Recomputed& all, std::int64_t layer);

// Returns, for each layer, the numbers of elements that backward holds during and after the layer,
// in addition to the values that forward saved. The numbers may be negative, because backward frees
// the saved values. Backward recomputes the layers of a recomputation unit together, so their
// values are in memory at the same time. `outside` has, for each layer, the elements that it saved
// outside the gradients' memory and that its backward frees. `workspace` is the number of temporary
// elements of one layer's backward. If `offloads` is true, backward first brings the unit's saved
// values back into memory, and `outside` has only zeros.
std::vector<PartValues> backward_extra(const spec::ModelConfig& m, const Rows& rows, bool segments,
                                       const Recomputed& all,
                                       const std::vector<std::int64_t>& outside,
                                       std::int64_t workspace, bool offloads);

// Returns the number of temporary elements per token of the backward of a layer with experts. An
// expert is expected to have at most twice the mean number of rows.
std::int64_t experts_workspace(const spec::ModelConfig& m);

// Returns the number of elements that a layer holds between the input-gradient pass and the
// weight-gradient pass of its backward: the inputs of its four matrix products, and the gradients
// of their outputs. All of these tensors have `rows.inner` rows.
std::int64_t layer_owed(const spec::ModelConfig& m, const Rows& rows);

}  // namespace roll::plan
