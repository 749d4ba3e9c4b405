// Reports the search for a layout as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "common/json.hpp"
#include "worker/train/search/search.hpp"

namespace roll::train {

// The memory that a rank may need. `from` says where this number comes from, for messages.
struct MemoryLimit {
    std::int64_t bytes = 0;
    std::string from;
};

// Searches the layouts of a job and returns the report (roll.layout/1): the chosen settings as keys
// of a job file, the best layouts, and the refused layouts with the reasons. Throws
// RankFailure(invalid) if no layout is legal, or if no layout fits into the limit. In the second
// case, the message has the smallest memory that was found, and what would help.
OrderedJson chosen_layout_json(const spec::TrainSpec& spec, const SearchSpace& space,
                               const MemoryLimit& limit);

// Sets the member of `space` for a key of a job file: tp, pp, vpp, sequence, zero, recompute,
// schedule or micro_batch_size. Throws RankFailure(invalid) for any other key.
void search_key(SearchSpace& space, const std::string& key);

}  // namespace roll::train
