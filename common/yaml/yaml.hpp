// Reads YAML files as JSON values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::yaml {

// Returns one value per YAML document. Scalars are typed as in YAML 1.2's core schema: 3e-3 is a
// number, and "yes" and all quoted scalars are strings. Fails with InvalidArgument and the message
// "FILE:LINE: ..." on malformed YAML, duplicate keys, keys that are not scalars, or aliases that
// expand to too many nodes.
Result<std::vector<Json>> read(std::string_view text, const std::string& file);

// Returns the line numbers, from 1, of all keys and list entries. There is one map per document.
// The map's keys are paths such as "train.optimizer.lr" and "then[0].name". Returns an empty list
// if the text is not YAML.
std::vector<std::map<std::string, int>> key_lines(std::string_view text);

// Parses VALUE of `--set a.b=VALUE`: a scalar typed as in read(), or a list or mapping in flow
// style.
Result<Json> read_value(const std::string& text);

}  // namespace roll::yaml
