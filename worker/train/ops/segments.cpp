#include "worker/train/ops/segments.hpp"

#include <utility>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/kernel.hpp"

namespace roll::ops {
namespace {

// Calls visit(i, begin, count) for every segment i of a row that has `positions` positions.
template <class Visit>
void for_segments(std::span<const std::int64_t> starts, std::int64_t positions,
                  const Visit& visit) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : positions;
        visit(i, starts[i], end - starts[i]);
    }
}

Heads part_of(const Heads& heads, std::int64_t begin, std::int64_t count) {
    const auto cut = [&](const at::Tensor& all) {
        return all.narrow(2, begin, count).contiguous();
    };
    return {cut(heads.q_BHTD), cut(heads.k_BGTD), cut(heads.v_BGTD)};
}

}  // namespace

at::Tensor attention_within(const Heads& heads, const AttentionRule& rule,
                            std::span<const std::int64_t> starts, SegmentsSaved& saved,
                            const Place& place) {
    saved.starts.assign(starts.begin(), starts.end());
    saved.parts.resize(std::max<std::size_t>(starts.size(), 1));
    if (starts.empty()) return attention(heads, rule, saved.parts[0], place);
    ROLL_CHECK(heads.q_BHTD.size(0) == 1 && starts[0] == 0);
    const std::int64_t positions = heads.q_BHTD.size(2);
    const at::Tensor o_BTA = made_in(
        place, {1, positions, heads.q_BHTD.size(1) * heads.q_BHTD.size(3)}, heads.q_BHTD.options());
    for_segments(starts, positions, [&](std::size_t i, std::int64_t begin, std::int64_t count) {
        o_BTA.narrow(1, begin, count)
            .copy_(attention(part_of(heads, begin, count), rule, saved.parts[i]));
    });
    return o_BTA;
}

Heads attention_within_backward(const at::Tensor& do_BTA, SegmentsSaved saved) {
    if (saved.starts.empty()) return attention_backward(do_BTA, saved.parts[0]);
    const Heads& first = saved.parts[0].heads;
    const std::int64_t positions = do_BTA.size(-2);
    const auto whole = [&](const at::Tensor& part) {
        return at::empty({1, part.size(1), positions, part.size(3)}, wide_options(part));
    };
    const Heads d{whole(first.q_BHTD), whole(first.k_BGTD), whole(first.v_BGTD)};
    for_segments(
        saved.starts, positions, [&](std::size_t i, std::int64_t begin, std::int64_t count) {
            const at::Tensor part = do_BTA.narrow(-2, begin, count).contiguous();
            const Heads dpart = attention_backward(part, std::exchange(saved.parts[i], {}));
            d.q_BHTD.narrow(2, begin, count).copy_(dpart.q_BHTD);
            d.k_BGTD.narrow(2, begin, count).copy_(dpart.k_BGTD);
            d.v_BGTD.narrow(2, begin, count).copy_(dpart.v_BGTD);
        });
    return d;
}

}  // namespace roll::ops
