// The free ranges of a file, for data that is kept there for a while. Pure.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace roll::train {

class Extents {
  public:
    // Adds the free range [begin, begin + size), and joins it with the adjacent free ranges.
    void give(std::int64_t begin, std::int64_t size) {
        const auto next = free_.lower_bound(begin);
        if (next != free_.end() && begin + size == next->first) {
            size += next->second;
            free_.erase(next);
        }
        const auto after = free_.lower_bound(begin);
        if (after != free_.begin()) {
            const auto before = std::prev(after);
            if (before->first + before->second == begin) {
                before->second += size;
                return;
            }
        }
        free_.emplace(begin, size);
    }

    // Takes `size` bytes from the first free range that is large enough. Returns their offset;
    // nullopt if no range is large enough.
    std::optional<std::int64_t> take(std::int64_t size) {
        for (auto range = free_.begin(); range != free_.end(); ++range) {
            const auto [begin, free] = *range;
            if (free < size) continue;
            free_.erase(range);
            if (free > size) free_.emplace(begin + size, free - size);
            return begin;
        }
        return std::nullopt;
    }

  private:
    std::map<std::int64_t, std::int64_t> free_;  // maps the offset of each range to its size
};

}  // namespace roll::train
