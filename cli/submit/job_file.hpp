// Makes JobSpecs from job files, --set and other options.
#pragma once

#include <string>
#include <vector>

#include "cli/job/options.hpp"
#include "cli/job/source.hpp"
#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::cli {

// Reads a job file; "-" stands for standard input. Refuses devices, because reading some devices
// never ends.
Result<std::string> read_job_text(const std::string& file);
// Returns the jobs in the text of a job file. The name `file` determines the format and the base
// directory.
Result<std::vector<Source>> job_sources(const std::string& text, const std::string& file);
Result<std::vector<Source>> read_job_file(const std::string& file);

// Returns the notes to print on stderr when the job is submitted or planned.
std::vector<std::string> notes_of(const Source& source);

// Sets the options' keys in the source's document. Marks the keys that --set has set, because they
// have no line in the file.
Result<void> override_keys(const JobOptions& options, Source& source);

// Like override_keys(), and then sets the keys that follow from the finished document, such as the
// settings of an adapter. Must be called once for a source, with the options that override all
// others.
Result<void> apply_options(const JobOptions& options, Source& source);

// Returns the spec of each source. Fails with one InvalidArgument that lists all problems of all
// sources and of the models from which they start. If `queues` is false, no job will be queued, so
// a model's directory needs no weights.
Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources,
                                                 bool queues = true);

}  // namespace roll::cli
