// Divides the work of an update into windows of the parameter's state, if the state is in a file
// (state_memory.hpp). If the state is not in a file, there is one window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/layout/shards.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/state_memory.hpp"

namespace roll::train {

// Calls body(begin, count) for consecutive ranges of `numel` elements. `states`: the state tensors
// that body() uses, with an element for each of the `numel` elements; undefined tensors are
// skipped.
template <class Body>
void for_windows(std::span<const at::Tensor> states, std::int64_t numel, const Body& body) {
    const bool has_state = !states.empty() && states[0].defined();
    const std::int64_t window = has_state ? window_of(states[0]) : numel;
    for (std::int64_t begin = 0; begin < numel; begin += window) {
        const std::int64_t count = std::min(window, numel - begin);
        fetch_after(states, begin, count);
        body(begin, count);
        let_go(states, begin, count);
    }
}

// Like for_windows(), for the blocks `parts` of this rank's own rows. Each call of body(blocks)
// gets one block of consecutive rows of a part. A part of a vector is not divided.
template <class Body>
void for_row_windows(std::span<const at::Tensor> states, const std::vector<layout::Part>& parts,
                     const ParameterSpec& spec, const Body& body) {
    const std::int64_t columns = spec.sizes.size() < 2 ? 1 : spec.sizes[1];
    const std::int64_t window = window_of(states[0]) / columns;
    for (const layout::Part& part : parts) {
        const std::int64_t rows = part.size[0];
        const std::int64_t most = spec.sizes.size() < 2 ? rows : std::max<std::int64_t>(window, 1);
        for (std::int64_t row = 0; row < rows; row += most) {
            layout::Part some = part;
            some.whole[0] += row;
            some.local[0] += row;
            some.size[0] = std::min(most, rows - row);
            const std::int64_t begin = some.local[0] * columns, count = some.size[0] * columns;
            fetch_after(states, begin, count);
            body(std::span<const layout::Part>(&some, 1));
            let_go(states, begin, count);
        }
    }
}

}  // namespace roll::train
