#include "worker/train/model/parts_in.hpp"

#include <algorithm>

namespace roll::train {

std::vector<layout::Part> parts_in(const ParameterSpec& spec, const layout::Rows& rows) {
    const std::vector<std::int64_t> start(spec.sizes.size());
    const std::vector<layout::Part> whole{{start, spec.sizes, start}};
    std::vector<layout::Part> parts;
    for (layout::Part part : spec.parts.empty() ? whole : spec.parts) {
        const std::int64_t first = std::max(rows.begin, part.local[0]);
        const std::int64_t last = std::min(rows.begin + rows.count, part.local[0] + part.size[0]);
        if (first >= last) continue;
        part.whole[0] += first - part.local[0];
        part.size[0] = last - first;
        part.local[0] = first - rows.begin;
        parts.push_back(std::move(part));
    }
    return parts;
}

}  // namespace roll::train
