// Replaces `parallel.layout: auto` and `train.micro_batch_size: auto` in job documents by the
// settings that roll-rank chooses.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"
#include "cli/source.hpp"

namespace roll::cli {

// Chooses the layout of each train or resume job in the sources that asks for it, and sets the
// chosen keys in the documents. Returns the reports of the searches (roll.layout/1). In a train
// job, the search keeps all keys of `parallel` that the document has; in a resume job, it keeps the
// keys that --set has set. Fails with InvalidArgument if nothing fits, and with roll-rank's error
// if roll-rank fails.
//
// The memory limit of a rank is the first of these that is known: parallel.memory_limit, the rank's
// share of resources.memory, its share of the smallest node that rolld knows, its share of this
// machine.
//
// A document with other problems is left unchanged. parse_sources() then reports the problems.
Result<std::vector<Json>> choose_layouts(const Context& context, std::vector<Source>& sources);

// Returns the report of a search as lines of text.
std::vector<std::string> layout_lines(const Json& report);

}  // namespace roll::cli
