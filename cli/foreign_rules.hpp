// Computes the keys of a job file that depend on several keys of a foreign configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/spec/problem.hpp"

namespace roll::cli {

// A key of the configuration, and the keys of the job file that it sets.
struct ForeignKey {
    std::string key;
    std::vector<std::string> sets;  // paths such as "train.optimizer.lr"
};

struct Foreign {
    // Keys of the configuration that set keys of the job file, in the order of the table
    std::vector<ForeignKey> honoured;
    // Defaults of the foreign program for keys that the configuration leaves out. `key` is empty
    // if a default belongs to no key.
    std::vector<ForeignKey> defaults;
    std::vector<std::string> no_effect;  // "KEY: REASON"
    std::vector<std::string> remarks;    // differences in meaning that the user should know about
    // Problems of the configuration; each path is one of its keys
    std::vector<spec::Problem> problems;
    std::int64_t sequences_per_replica = 0;  // micro-batch size x gradient accumulation; 0: unknown
};

// Sets a key of a document by its path, such as "train.optimizer.lr".
void set_path(Json& document, const std::string& path, Json value);

// Applies all rules. `config` has no keys with the value null. Adds problems and remarks to
// `foreign`. `megatron`: the configuration has keys of mcore_adapter.
void apply_rules(const Json& config, const std::string& directory, bool megatron, Json& document,
                 Foreign& foreign);

}  // namespace roll::cli
