// `rollctl tell` and `rollctl checkpoint`: requests to a running training.
#pragma once

#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "common/error.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct TellOptions {
    std::string job;
    std::vector<std::string> words;  // name of the request, and its value if it has one
    std::string timeout = "10m";     // longest wait for the answer
};

// Adds the arguments of the two commands.
void add_tell_options(CLI::App& checkpoint, CLI::App& tell, TellOptions& options);

// Requests a checkpoint of a training job, waits until the checkpoint is recorded, and prints the
// checkpoint's directory.
Result<int> run_checkpoint(const Context& context, const TellOptions& options);

// Makes a request to a running training, waits for its answer, and prints the answer.
Result<int> run_tell(const Context& context, const TellOptions& options);

}  // namespace roll::cli
