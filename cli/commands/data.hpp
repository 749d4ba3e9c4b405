// The command `data preview`, and the document that roll-rank reads for it and for `plan`.
#pragma once

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

// Reads a file that holds one job, which must be of one of these kinds. Returns its document.
// `command` is named in errors.
Result<std::string> one_document(const std::string& file, const std::string& command,
                                 const std::vector<spec::JobKind>& kinds,
                                 const JobOptions& options);

// Creates a file in memory with this content and returns its path. The file is gone once no process
// has it open.
Result<std::string> in_memory(const std::string& content);

}  // namespace roll::cli
