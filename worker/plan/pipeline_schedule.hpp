// Pipeline schedules as data: for each rank, the order of its operations (ops). Pure; no torch.
//
// A model is cut into pp * vp stages of one chunk each, which a Placement assigns to the ranks. A
// schedule lists no sends and receives, because they follow from the ops. A forward op of stage s
// receives from the rank of stage s - 1 (unless s is 0), computes, and sends to the rank of stage
// s + 1 (unless s is the last stage). A backward-input op does the same in the opposite
// direction. Two stages on the same rank hand the tensor over without a message.
//
// The program that executes a schedule must guarantee the following. There is one link for each
// (from, to, activation | gradient), which delivers messages in the order of the sends. A send
// does not block its rank. A receive is posted one op before the op that needs it. Messages carry
// no ids.
#pragma once

#include <cstdint>
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

// How the stages are assigned to the ranks. With pp 3 and vp 2, rank 0 has the stages 0 and 3 in
// Loop, and 0 and 5 in V. In V, the first and the last stage are therefore on rank 0.
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

// Returns true if the backward that starts at ops[i] computes both halves in one pass. This is
// the case if the weight half is the next op and no stage waits for the result of the input half.
bool halves_together(std::span<const Op> ops, std::size_t i, bool first_stage);

// Returns the 1F1B schedule. The weight half of each backward follows its input half immediately.
PipelineSchedule one_forward_one_backward(int pp, int microbatches);

// Returns Megatron's interleaved schedule with vp chunks per rank. The micro-batches form groups of
// `group`, or of pp if `group` is 0; the last group may be smaller. Requires `group` >= pp or 0.
PipelineSchedule interleaved(int pp, int vp, int microbatches, int group = 0);

// Returns the ZB-H1 schedule: like 1F1B, but rank r delays the weight half of each backward by r
// micro-batches. The delayed halves fill the pipeline's bubbles. Every rank holds the activations
// of pp micro-batches, as rank 0 does in 1F1B.
PipelineSchedule zero_bubble_h1(int pp, int microbatches);

// Returns the ZB-V schedule: two chunks per rank in the placement V. If all ops take equally long
// and there are at least 2 pp - 1 micro-batches, no rank is idle between its first and its last
// op.
PipelineSchedule zero_bubble_v(int pp, int microbatches);

// Returns the DualPipeV schedule: two chunks per rank in the placement V. Forwards and backwards
// alternate, so that the computation of one hides the communication of the other. Fails with
// InvalidArgument if there are fewer than 2 pp micro-batches.
Result<PipelineSchedule> dual_pipe_v(int pp, int microbatches);

// Returns the GPipe schedule: all forwards, then all backwards, chunk by chunk. Every rank holds
// the activations of all micro-batches.
PipelineSchedule gpipe(int pp, int vp, int microbatches, Placement placing = Placement::Loop);

// Returns a schedule that runs only forward, in the order of gpipe().
PipelineSchedule forward_only(int pp, int vp, int microbatches, Placement placing);

// Returns the op as text: "F3" is the forward of micro-batch 3, "F3'" the same in chunk 1. The
// letters B and W stand for the input half and the weight half of backward.
std::string to_string(const Op& op);

}  // namespace roll::plan
