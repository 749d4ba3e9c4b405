// From what the user typed to JobSpecs: files, --set and the options that stand for keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/job.hpp"

namespace roll::cli {

// Options that stand for keys of a job file; what is set wins over the file.
struct JobOptions {
    std::vector<std::string> sets;   // "a.b=value"
    std::vector<std::string> after;  // "ok:ID"
    bool hold = false;
    std::string name;
    std::string time;
    std::optional<int> slots;
    std::optional<int> gpus;
    std::optional<int> nodes;
};

// A document and the directory that its relative paths are taken from.
struct Source {
    std::string label;  // the file, for messages
    Json document;
    std::string base;
};

Result<std::vector<Source>> read_job_file(const std::string& file);
Source command_source(const std::vector<std::string>& program);

// Error InvalidArgument: a --set that is no a.b=value, or goes through what is no mapping.
Result<void> apply_options(const JobOptions& options, Json& document);

// Every source's spec, or one Error InvalidArgument that holds all problems of all of them.
Result<std::vector<spec::JobSpec>> parse_sources(const std::vector<Source>& sources);

}  // namespace roll::cli
