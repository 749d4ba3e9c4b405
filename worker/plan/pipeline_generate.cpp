#include <algorithm>

#include "worker/plan/pipeline_schedule.hpp"

namespace roll::plan {
namespace {

// Returns the k-th op of a kind, which is the same for every rank. Each group of pp micro-batches
// passes through all chunks before the next group starts.
Op nth(OpKind kind, int k, const PipelineSchedule& s) {
    const int group = k / (s.pp * s.vp), within = k % (s.pp * s.vp);
    const int chunk = within / s.pp, microbatch = group * s.pp + within % s.pp;
    return {kind, kind == OpKind::Forward ? chunk : s.vp - 1 - chunk, microbatch};
}

// Returns the ops of a rank: `warmup` forwards, which run until the first gradient can arrive, then
// pairs of forward and backward, then the remaining backwards. The weight half of a backward comes
// `delay` backwards after its input half.
std::vector<Op> rank_ops(const PipelineSchedule& s, int warmup, int delay) {
    const int total = s.microbatches * s.vp;
    warmup = std::min(warmup, total);
    std::vector<Op> ops;
    for (int k = 0; k < warmup; ++k) ops.push_back(nth(OpKind::Forward, k, s));
    for (int k = 0; k < total + delay; ++k) {
        if (warmup + k < total) ops.push_back(nth(OpKind::Forward, warmup + k, s));
        if (k < total) ops.push_back(nth(OpKind::BackwardInput, k, s));
        if (k >= delay) ops.push_back(nth(OpKind::BackwardWeight, k - delay, s));
    }
    return ops;
}

}  // namespace

PipelineSchedule one_forward_one_backward(int pp, int microbatches) {
    PipelineSchedule s{pp, 1, microbatches, {}};
    for (int rank = 0; rank < pp; ++rank) s.ranks.push_back(rank_ops(s, pp - 1 - rank, 0));
    return s;
}

Result<PipelineSchedule> interleaved(int pp, int vp, int microbatches) {
    if (microbatches % pp != 0) {
        return fail(ErrorCode::InvalidArgument, "microbatches (" + std::to_string(microbatches) +
                                                    ") must be a multiple of pp (" +
                                                    std::to_string(pp) +
                                                    ") when chunks are interleaved");
    }
    PipelineSchedule s{pp, vp, microbatches, {}};
    for (int rank = 0; rank < pp; ++rank)
        s.ranks.push_back(rank_ops(s, 2 * (pp - 1 - rank) + (vp - 1) * pp, 0));
    return s;
}

PipelineSchedule zero_bubble_h1(int pp, int microbatches) {
    PipelineSchedule s{pp, 1, microbatches, {}};
    for (int rank = 0; rank < pp; ++rank) s.ranks.push_back(rank_ops(s, pp - 1 - rank, rank));
    return s;
}

std::vector<Op> forward_only(int vp, int microbatches) {
    std::vector<Op> ops;
    for (int chunk = 0; chunk < vp; ++chunk)
        for (int i = 0; i < microbatches; ++i) ops.push_back({OpKind::Forward, chunk, i});
    return ops;
}

PipelineSchedule gpipe(int pp, int vp, int microbatches) {
    std::vector<Op> ops = forward_only(vp, microbatches);
    for (int chunk = vp - 1; chunk >= 0; --chunk) {
        for (int i = 0; i < microbatches; ++i) {
            ops.push_back({OpKind::BackwardInput, chunk, i});
            ops.push_back({OpKind::BackwardWeight, chunk, i});
        }
    }
    return {pp, vp, microbatches, std::vector(static_cast<std::size_t>(pp), ops)};
}

Result<PipelineSchedule> schedule_of(const spec::ParallelSpec& parallel,
                                     std::int64_t microbatches) {
    const int pp = parallel.pp, vp = parallel.vpp, m = static_cast<int>(microbatches);
    switch (parallel.schedule) {
        case spec::Schedule::Auto:
            if (vp > 1) return interleaved(pp, vp, m);
            return one_forward_one_backward(pp, m);
        case spec::Schedule::Interleaved: return interleaved(pp, vp, m);
        case spec::Schedule::OneForwardOneBackward: return one_forward_one_backward(pp, m);
        case spec::Schedule::ZeroBubbleH1: return zero_bubble_h1(pp, m);
        case spec::Schedule::Gpipe: break;
    }
    return gpipe(pp, vp, m);
}

}  // namespace roll::plan
