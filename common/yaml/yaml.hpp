// YAML as job files use it, turned into JSON.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::yaml {

// One value a document of the stream. Scalars are typed as in YAML 1.2's core schema: 3e-3 is a
// number, "yes" a string, a quoted scalar always a string. Errors are InvalidArgument, "FILE:LINE:
// ...": not YAML, a key twice, a key that is no scalar, aliases that unfold to more than a job file
// can hold.
Result<std::vector<Json>> read(std::string_view text, const std::string& file);

// Where the keys and list entries of each document stand: "train.optimizer.lr", "then[0].name" ->
// its line, from 1. What cannot be read has none.
std::vector<std::map<std::string, int>> key_lines(std::string_view text);

// A single scalar typed the same way: for --set a.b=VALUE. Lists and mappings in flow style too.
Result<Json> read_value(const std::string& text);

}  // namespace roll::yaml
