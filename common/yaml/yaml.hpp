// Reads YAML files as JSON values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::yaml {

// Returns one value per document. Scalars are typed as in YAML 1.2's core schema: 3e-3 is a number,
// "yes" a string, a quoted scalar always a string. Fails with InvalidArgument, "FILE:LINE: ...", on
// malformed YAML, duplicate keys, keys that are no scalars, or aliases that expand too far.
Result<std::vector<Json>> read(std::string_view text, const std::string& file);

// Returns, for each document, the line (from 1) of each key and list entry by its path:
// "train.optimizer.lr", "then[0].name". Empty if the text is not YAML.
std::vector<std::map<std::string, int>> key_lines(std::string_view text);

// Reads one value for --set a.b=VALUE: a scalar typed as above, or a list or mapping in flow style.
Result<Json> read_value(const std::string& text);

}  // namespace roll::yaml
