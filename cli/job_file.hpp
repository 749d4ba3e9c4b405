// From what the user typed to JobSpecs: files, --set and the options that stand for keys.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/job_options.hpp"
#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::cli {

// A document and the directory that its relative paths are taken from.
struct Source {
    std::string label;  // the file, for messages
    Json document;
    std::string base;
    std::map<std::string, int> lines = {};         // of its keys, by their paths
    std::shared_ptr<const std::string> yaml = {};  // where the others are, if there is one
    std::size_t document_index = 0;                // of those in it
    std::vector<std::string> notes = {};           // lines to say beside the submission
};

Result<std::vector<Source>> read_job_file(const std::string& file);
// Puts the options into its document, and says of a --set that it has no line.
Result<void> apply_options(const JobOptions& options, Source& source);
Result<Source> command_source(const std::vector<std::string>& program);

// Error InvalidArgument if the directory was deleted.
Result<std::string> working_directory();

// Every source's spec, or one Error InvalidArgument that holds all problems of all of them, those
// of the models that they start from too.
Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources);

}  // namespace roll::cli
