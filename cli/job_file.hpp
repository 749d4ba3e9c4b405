// Makes JobSpecs from job files, --set and other options.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/foreign.hpp"
#include "cli/job_options.hpp"
#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::cli {

// One job document, and where it comes from.
struct Source {
    std::string label;  // name of the file, for messages
    Json document;
    std::string base;
    std::map<std::string, int> lines = {};  // maps the path of a key to its line in the file
    // Text of a YAML file, from which line numbers are found when they are needed; null for other
    // formats.
    std::shared_ptr<const std::string> yaml = {};
    std::size_t document_index = 0;       // index of this document among those in `yaml`
    std::vector<std::string> notes = {};  // notes to print when the job is submitted
    // How the file was read, if it is a configuration of another program; else null
    std::shared_ptr<const Foreign> foreign = {};
};

Result<std::vector<Source>> read_job_file(const std::string& file);

// Returns the notes to print on stderr when the job is submitted or planned.
std::vector<std::string> notes_of(const Source& source);

// Applies the options to the source's document. Marks the keys that --set has set, because they
// have no line in the file.
Result<void> apply_options(const JobOptions& options, Source& source);
Result<Source> command_source(const std::vector<std::string>& program);

// Returns the working directory. Fails with InvalidArgument if the directory was deleted.
Result<std::string> working_directory();

// Returns the spec of each source. Fails with one InvalidArgument that lists all problems of all
// sources and of the models from which they start. With `config_suffices`, the directories of
// models need no weights.
Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources,
                                                 bool config_suffices = false);

}  // namespace roll::cli
