// Attention that stays within segments: documents that share a sequence see nothing of each other.
// Block-diagonal over one row of positions; each block is attention of its own, so whatever its
// kernels do holds here too. Letters as in rope.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/train/ops/attention.hpp"

namespace roll::ops {

struct SegmentsSaved {
    std::vector<std::int64_t> starts;
    std::vector<AttentionSaved> parts;
};

// Returns o_BTA. `starts` are where segments begin, ascending from 0, with B = 1; without any, each
// of the B rows is one.
at::Tensor attention_within(const Heads& heads, const AttentionRule& rule,
                            std::span<const std::int64_t> starts, SegmentsSaved& saved,
                            const Place& place = {});

// Uses up what was saved.
Heads attention_within_backward(const at::Tensor& do_BTA, SegmentsSaved saved);

}  // namespace roll::ops
