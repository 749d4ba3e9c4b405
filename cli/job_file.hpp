// Turns job files, --set and other options into JobSpecs.
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

// One job document and the directory that its relative paths start from.
struct Source {
    std::string label;  // the file, for messages
    Json document;
    std::string base;
    std::map<std::string, int> lines = {};         // key path -> line number
    std::shared_ptr<const std::string> yaml = {};  // text to find other keys' lines in; may be null
    std::size_t document_index = 0;                // index of this document in `yaml`
    std::vector<std::string> notes = {};           // notes to print on submission
};

Result<std::vector<Source>> read_job_file(const std::string& file);
// Applies the options to the source's document. Marks keys from --set as having no line.
Result<void> apply_options(const JobOptions& options, Source& source);
Result<Source> command_source(const std::vector<std::string>& program);

// Returns the working directory. Fails with InvalidArgument if it was deleted.
Result<std::string> working_directory();

// Returns the spec of every source. Fails with one InvalidArgument that lists all problems of all
// sources, including problems of the models that they start from.
Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources);

}  // namespace roll::cli
