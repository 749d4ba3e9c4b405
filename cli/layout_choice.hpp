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
// job, the search keeps all keys of `parallel` that the document has; in a resumed job, those that
// --set has set. Fails with InvalidArgument if nothing fits, and with roll-rank's error if
// roll-rank fails.
//
// A rank may need parallel.memory_limit, or else its share of resources.memory, or else its share
// of the smallest node's memory. Nodes are those that rolld knows, or else this machine.
//
// A document with other problems is left unchanged. parse_sources() then reports the problems.
Result<std::vector<Json>> choose_layouts(const Context& context, std::vector<Source>& sources);

// Returns the report of a search as lines of text.
std::vector<std::string> layout_lines(const Json& report);

}  // namespace roll::cli
