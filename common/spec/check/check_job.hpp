// The one check of a job file. Every program that reads a job file calls check_job().
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/spec/check/parsed_job.hpp"

namespace roll::spec {

// Checks a job document by the schema and by all rules of this folder, and makes the job's
// specification from it. The document may be any JSON, for example a value of a wrong type, text
// that is not UTF-8, or many megabytes. Relative paths are relative to `base_directory`, which must
// be absolute. Does not read the files that the job names, but reports files that do not exist.
ParsedJob check_job(const Json& document, const std::string& base_directory);

}  // namespace roll::spec
