// The indices of a job array, such as "0-15%4". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::spec {

// An array submits one job per index at once. `output` and the document may contain "{index}".
struct Array {
    std::string indices;  // text of the indices, such as "0-15", "1,4-9" or "0-100:20"
    int limit = 0;        // maximum number of tasks that run at once; 0: no limit
    int index = -1;       // index of this task; -1 in the spec of the whole array
    friend bool operator==(const Array&, const Array&) = default;
};

constexpr int kArrayTasksMax = 10'000;

// Returns the indices in a text such as "1,4-9,0-100:20", ascending and distinct. The text must not
// contain a limit of running tasks ("%4").
Result<std::vector<int>> array_indices(std::string_view text);

// Parses a text such as "0-15%4". "%4" means that at most 4 tasks run at once.
Result<Array> parse_array(std::string_view text);

}  // namespace roll::spec
