#include <algorithm>
#include <deque>

#include "common/check.hpp"
#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {
namespace {

// Returns the k-th op of a kind. Every rank has the same k-th op. A group of micro-batches passes
// through all chunks before the next group starts.
Op nth(OpKind kind, int k, const PipelineSchedule& s, int group) {
    const int first = k / (group * s.vp) * group, within = k % (group * s.vp);
    const int size = std::min(group, s.microbatches - first);
    const int chunk = within / size;
    return {kind, kind == OpKind::Forward ? chunk : s.vp - 1 - chunk, first + within % size};
}

// Returns the ops of one rank: `warmup` forwards, then pairs of a forward and a backward, then the
// remaining backwards. The weight-gradient pass of a backward runs only after the input-gradient
// passes of the next `delay` backwards.
std::vector<Op> rank_ops(const PipelineSchedule& s, int group, int warmup, int delay) {
    const int total = s.microbatches * s.vp;
    warmup = std::min(warmup, total);
    std::vector<Op> ops;
    for (int k = 0; k < warmup; ++k) ops.push_back(nth(OpKind::Forward, k, s, group));
    for (int k = 0; k < total + delay; ++k) {
        if (warmup + k < total) ops.push_back(nth(OpKind::Forward, warmup + k, s, group));
        if (k < total) ops.push_back(nth(OpKind::BackwardInput, k, s, group));
        if (k >= delay) ops.push_back(nth(OpKind::BackwardWeight, k - delay, s, group));
    }
    return ops;
}

// Builds the ops of one rank with two chunks in the placement V. Each call adds an op for the
// next micro-batch of its kind and chunk.
class RowOfV {
  public:
    explicit RowOfV(int microbatches) : microbatches_(microbatches) {}

    // Adds an op for the next micro-batch, unless all micro-batches have this op already.
    void add(OpKind kind, int chunk) {
        const int microbatch = next_[static_cast<int>(kind)][chunk]++;
        if (microbatch < microbatches_) ops_.push_back({kind, chunk, microbatch});
    }
    void forward(int chunk) { add(OpKind::Forward, chunk); }
    void backward(int chunk) {
        add(OpKind::BackwardInput, chunk);
        add(OpKind::BackwardWeight, chunk);
    }
    // Adds an input-gradient pass. A later call of weight() adds its weight-gradient pass.
    void input(int chunk) {
        add(OpKind::BackwardInput, chunk);
        owed_.push_back(chunk);
    }
    // Adds the oldest weight-gradient pass that has not been added yet.
    void weight() {
        if (owed_.empty()) return;
        add(OpKind::BackwardWeight, owed_.front());
        owed_.pop_front();
    }
    int forwards(int chunk) const { return next_[0][chunk]; }
    bool owes() const { return !owed_.empty(); }
    std::vector<Op> take() { return std::move(ops_); }

  private:
    int microbatches_;
    int next_[3][2] = {};  // number of ops so far: [kind][chunk]
    std::deque<int> owed_;
    std::vector<Op> ops_;
};

std::vector<Op> zero_bubble_v_row(int pp, int rank, int microbatches) {
    // The order of ops in ZB-V needs at least 2 pp - 1 micro-batches. RowOfV leaves out the ops of
    // micro-batches beyond the real ones.
    const int all = std::max(2 * pp - 1, microbatches);
    RowOfV row(microbatches);
    for (int i = 0; i < 2 * (pp - rank) - 1; ++i) row.forward(0);
    for (int i = 0; i < rank; ++i) {
        row.forward(1);
        row.forward(0);
    }
    for (int i = 0; i < pp - rank; ++i) {
        row.forward(1);
        row.backward(1);
    }
    while (row.forwards(1) < row.forwards(0) || row.forwards(0) < all) {
        if (row.forwards(0) < all) row.forward(0);
        row.backward(0);
        row.forward(1);
        row.backward(1);
    }
    for (int i = 0; i < rank; ++i) {
        row.input(0);
        row.input(1);
    }
    for (int i = 0; i < pp - rank; ++i) {
        row.input(0);
        row.weight();
    }
    while (row.owes()) row.weight();
    return row.take();
}

std::vector<Op> dual_pipe_v_row(int pp, int rank, int microbatches) {
    RowOfV row(microbatches);
    const int after = pp - 1 - rank;  // number of ranks after this one
    for (int i = 0; i < 2 * after; ++i) row.forward(0);
    for (int i = 0; i <= rank; ++i) {
        row.forward(0);
        row.forward(1);
    }
    for (int i = 0; i < after; ++i) {
        row.input(1);
        row.weight();
        row.forward(1);
    }
    for (int i = 0; i < microbatches - 2 * pp + rank + 1; ++i) {
        row.forward(0);
        row.backward(1);
        row.forward(1);
        row.backward(0);
    }
    for (int i = 0; i < after; ++i) {
        row.backward(1);
        row.forward(1);
        row.backward(0);
    }
    // From iteration rank + 1 on, a backward adds only its input-gradient pass. The code below adds
    // its weight-gradient pass.
    for (int i = 0; i < 2 * (rank + 1); ++i) {
        const int chunk = i % 2 == 0 ? 1 : 0;
        i > rank ? row.input(chunk) : row.backward(chunk);
    }
    for (int i = 0; i < after; ++i) {
        row.weight();
        row.input(0);
    }
    while (row.owes()) row.weight();
    return row.take();
}

}  // namespace

Home home_of(Placement placing, int pp, int stage) {
    const int chunk = stage / pp, within = stage % pp;
    return {placing == Placement::V && chunk % 2 == 1 ? pp - 1 - within : within, chunk};
}

int stage_of(Placement placing, int pp, const Home& home) {
    const bool back = placing == Placement::V && home.chunk % 2 == 1;
    return home.chunk * pp + (back ? pp - 1 - home.rank : home.rank);
}

bool halves_together(std::span<const Op> ops, std::size_t i, bool sends) {
    const Op weight{OpKind::BackwardWeight, ops[i].chunk, ops[i].microbatch};
    return !sends && i + 1 < ops.size() && ops[i + 1] == weight;
}

PipelineSchedule one_forward_one_backward(int pp, int microbatches) {
    PipelineSchedule s{pp, 1, microbatches, {}, Placement::Loop, "1f1b"};
    for (int rank = 0; rank < pp; ++rank) s.ranks.push_back(rank_ops(s, pp, pp - 1 - rank, 0));
    return s;
}

PipelineSchedule interleaved(int pp, int vp, int microbatches, int group) {
    if (group == 0) group = pp;
    ROLL_CHECK(group >= pp);
    PipelineSchedule s{pp, vp, microbatches, {}, Placement::Loop, "interleaved"};
    for (int rank = 0; rank < pp; ++rank)
        s.ranks.push_back(rank_ops(s, group, 2 * (pp - 1 - rank) + (vp - 1) * group, 0));
    return s;
}

PipelineSchedule zero_bubble_h1(int pp, int microbatches) {
    PipelineSchedule s{pp, 1, microbatches, {}, Placement::Loop, "zb-h1"};
    for (int rank = 0; rank < pp; ++rank) s.ranks.push_back(rank_ops(s, pp, pp - 1 - rank, rank));
    return s;
}

PipelineSchedule zero_bubble_v(int pp, int microbatches) {
    PipelineSchedule s{pp, 2, microbatches, {}, Placement::V, "zb-v"};
    for (int rank = 0; rank < pp; ++rank)
        s.ranks.push_back(zero_bubble_v_row(pp, rank, microbatches));
    return s;
}

Result<PipelineSchedule> dual_pipe_v(int pp, int microbatches) {
    if (microbatches < 2 * pp)
        return fail(ErrorCode::InvalidArgument,
                    "DualPipeV needs at least 2 pp = " + std::to_string(2 * pp) +
                        " micro-batches, not " + std::to_string(microbatches));
    PipelineSchedule s{pp, 2, microbatches, {}, Placement::V, "dualpipe-v"};
    for (int rank = 0; rank < pp; ++rank)
        s.ranks.push_back(dual_pipe_v_row(pp, rank, microbatches));
    return s;
}

PipelineSchedule forward_only(int pp, int vp, int microbatches, Placement placing) {
    std::vector<Op> ops;
    for (int chunk = 0; chunk < vp; ++chunk)
        for (int i = 0; i < microbatches; ++i) ops.push_back({OpKind::Forward, chunk, i});
    return {pp,      vp,       microbatches, std::vector(static_cast<std::size_t>(pp), ops),
            placing, "forward"};
}

PipelineSchedule gpipe(int pp, int vp, int microbatches, Placement placing) {
    PipelineSchedule s = forward_only(pp, vp, microbatches, placing);
    s.name = "gpipe";
    for (std::vector<Op>& ops : s.ranks) {
        for (int chunk = vp - 1; chunk >= 0; --chunk) {
            for (int i = 0; i < microbatches; ++i) {
                ops.push_back({OpKind::BackwardInput, chunk, i});
                ops.push_back({OpKind::BackwardWeight, chunk, i});
            }
        }
    }
    return s;
}

std::string to_string(const Op& op) {
    return "FBW"[static_cast<int>(op.kind)] + std::to_string(op.microbatch) +
           std::string(static_cast<std::size_t>(op.chunk), '\'');
}

}  // namespace roll::plan
