// A job document before its options are applied, and the origin of the document.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/foreign/foreign.hpp"
#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// A job document and its origin.
struct Source {
    std::string label;  // name of the file, for messages
    Json document;
    std::string base;  // directory from which relative paths in the document start
    std::map<std::string, int> lines = {};  // maps the path of a key to its line in the file
    // Text of a YAML file. Line numbers are found in this text when they are needed. Null for other
    // formats.
    std::shared_ptr<const std::string> yaml = {};
    std::size_t document_index = 0;       // index of this document among the documents in `yaml`
    std::vector<std::string> notes = {};  // notes to print when the job is submitted
    // Report of the translation if the file is a configuration of another program; else null
    std::shared_ptr<const Foreign> foreign = {};
    // True for the document of a queued job: it has all keys, including those that the user did not
    // set
    bool stored = false;
};

// Returns the source of a job that runs the command `program` in the working directory. The job has
// the name of the program.
Result<Source> command_source(const std::vector<std::string>& program);

// Returns the working directory. Fails with InvalidArgument if the directory was deleted.
Result<std::string> working_directory();

}  // namespace roll::cli
