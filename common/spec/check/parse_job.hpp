// Checks a job file and makes the job's specification from it.
#pragma once

#include <string>
#include <string_view>

#include "common/spec/check/parsed_job.hpp"

namespace roll::spec {

// Parses a job document (JSON; the CLI converts YAML) and checks it against
// schemas/job.schema.json. Relative paths are relative to `base_directory`, which must be absolute.
ParsedJob parse_job(std::string_view json_document, const std::string& base_directory);

}  // namespace roll::spec
