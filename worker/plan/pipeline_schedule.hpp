// Pipeline schedules as data: for each rank, the order of its operations (ops). Pure; no torch.
//
// A model is cut into pp * vp stages of one chunk each. A Placement assigns the stages to the
// ranks. Backward consists of two passes: the input-gradient pass B and the weight-gradient pass W.
// A schedule lists no sends and receives, because they follow from the ops. A forward op of stage s
// receives from the rank of stage s - 1 (unless s is 0), computes, and sends to the rank of stage s
// + 1 (unless s is the last stage). A BackwardInput op does the same in the opposite direction. Two
// stages on the same rank pass the tensor on without a message.
//
// The program that executes a schedule must guarantee the following. There is one link for each
// (from, to, activation | gradient). A link delivers messages in the order of the sends. A send
// does not block its rank. A receive is posted one op before the op that needs it. Messages carry
// no ids.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::plan {

enum class OpKind { Forward, BackwardInput, BackwardWeight };

struct Op {
    OpKind kind = OpKind::Forward;
    int chunk = 0;
    int microbatch = 0;
    friend bool operator==(const Op&, const Op&) = default;
};

// How stages are assigned to ranks. Example with pp 3 and vp 2: in Loop, rank 0
// has the stages 0 and 3; in V, it has the stages 0 and 5, the first and the
// last.
enum class Placement { Loop, V };

struct Home {
    int rank = 0;
    int chunk = 0;
    friend bool operator==(const Home&, const Home&) = default;
};
Home home_of(Placement placing, int pp, int stage);
int stage_of(Placement placing, int pp, const Home& home);

struct PipelineSchedule {
    int pp = 1;
    int vp = 1;
    int microbatches = 1;
    std::vector<std::vector<Op>> ranks;
    Placement placing = Placement::Loop;
    std::string name = {};  // the schedule's name in job files

    int stages() const { return pp * vp; }
    Home home(int stage) const { return home_of(placing, pp, stage); }
    int stage(int rank, int chunk) const { return stage_of(placing, pp, {rank, chunk}); }
};

// Returns true if the backward that starts at ops[i] can compute the input gradients and the weight
// gradients in one pass. This requires that the next op is the weight-gradient pass of the same
// micro-batch, and that no other stage waits for the input gradients. `sends`: whether the stage
// sends gradients to another stage.
bool halves_together(std::span<const Op> ops, std::size_t i, bool sends);

// Returns the 1F1B schedule. Each weight-gradient pass follows its input-gradient pass immediately.
PipelineSchedule one_forward_one_backward(int pp, int microbatches);

// Returns Megatron's interleaved schedule with vp chunks per rank. The micro-batches form groups of
// `group`, or of pp if `group` is 0. The last group may be smaller. `group` must be 0 or at least
// pp.
PipelineSchedule interleaved(int pp, int vp, int microbatches, int group = 0);

// Returns the ZB-H1 schedule. It is like 1F1B, but rank r delays each weight-gradient pass by r
// micro-batches. The delayed passes fill the pipeline's bubbles. Every rank holds the activations
// of pp micro-batches, as rank 0 does in 1F1B.
PipelineSchedule zero_bubble_h1(int pp, int microbatches);

// Returns the ZB-V schedule, which has two chunks per rank in the placement V. If all ops take
// equally long and there are at least 2 pp - 1 micro-batches, no rank is idle between its first and
// its last op.
PipelineSchedule zero_bubble_v(int pp, int microbatches);

// Returns the DualPipeV schedule, which has two chunks per rank in the placement V. Forwards and
// backwards alternate, so that the computation of one hides the communication of the other. Fails
// with InvalidArgument if there are fewer than 2 pp micro-batches.
Result<PipelineSchedule> dual_pipe_v(int pp, int microbatches);

// Returns the GPipe schedule. It runs all forwards, then all backwards, chunk by chunk. Every rank
// holds the activations of all micro-batches.
PipelineSchedule gpipe(int pp, int vp, int microbatches, Placement placing = Placement::Loop);

// Returns a schedule that runs only forward, in the order of gpipe().
PipelineSchedule forward_only(int pp, int vp, int microbatches, Placement placing);

// Returns the op as text. "F3" is the forward of micro-batch 3 in chunk 0, and "F3'" is its forward
// in chunk 1. The letters B and W stand for the input-gradient pass and the weight-gradient pass.
std::string to_string(const Op& op);

}  // namespace roll::plan
