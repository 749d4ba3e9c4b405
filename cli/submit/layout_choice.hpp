// Replaces `parallel.layout: auto` and `train.micro_batch_size: auto` in job documents by the
// settings that roll-rank chooses.
#pragma once

#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "cli/job/source.hpp"

namespace roll::cli {

// Searches for a layout of each train or resume job in `sources` whose document has a key with the
// value `auto`. Sets the chosen keys in the documents, and returns the reports of the searches
// (roll.layout/1). In a train job, the search keeps all keys of `parallel` that the document has.
// In a resume job, the search keeps the keys that --set has set. Fails with InvalidArgument if no
// layout fits into the memory limit, and with roll-rank's error if roll-rank fails.
//
// The memory limit of a rank is parallel.memory_limit. Without this key, it is the rank's share of
// the first of these sizes that is known: resources.memory, the memory of the smallest node that
// rolld knows, the memory of this machine.
//
// If check_job() refuses a document, this function does not change the document. parse_sources()
// reports the problems.
Result<std::vector<Json>> choose_layouts(const Context& context, std::vector<Source>& sources);

// Fails with InvalidArgument at the first train or resume job, or later job of a chain, that needs
// more memory than parallel.memory_limit or parallel.activation_limit. Ignores jobs that roll-rank
// cannot plan now.
Result<void> check_memory_limits(const std::vector<spec::JobSpec>& jobs);

// Returns a warning for each train or resume job whose tensor-parallel groups are on several nodes.
// The warning has the bytes that a rank sends, if roll-rank can plan the job now.
std::vector<std::string> span_warnings(const std::vector<spec::JobSpec>& jobs);

}  // namespace roll::cli
