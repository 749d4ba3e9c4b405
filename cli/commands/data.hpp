// The command `data preview`, and the document that roll-rank reads for `data preview` and for
// `plan`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"

namespace roll::cli {

struct PreviewOptions {
    std::string file, model;
    int documents = 3;
    JobOptions job;
};

void add_preview_options(CLI::App& command, PreviewOptions& options);
Result<int> run_preview(const Context& context, const PreviewOptions& options);

// Reads a job file and returns the job's document. Fails if the file does not contain exactly one
// job, or if the job's kind is not one of `kinds`. Error messages name `command`. `prepare` may
// change the sources before their check.
using Prepare = std::function<Result<void>(std::vector<Source>&)>;
Result<std::string> one_document(const std::string& file, const std::string& command,
                                 const std::vector<spec::JobKind>& kinds, const JobOptions& options,
                                 const Prepare& prepare = {});

}  // namespace roll::cli
