// Rules that apply to jobs of all kinds, and that the schema cannot express. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/spec/job/job.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

// Returns the problems of the first rule that a document breaks. Requires that the document has
// passed the schema's check and has all defaults. Skips the rules for times if the document is
// stored: earlier versions did not have these rules.
std::vector<Problem> job_problems(const Json& document, bool stored);

// Checks the number and the names of the files in `files`. Also checks that the size of each file
// fits its number of pieces, which are blocks of at most kPieceBytes. Requires a document that fits
// the schema.
std::vector<Problem> check_files(const Json& document);

constexpr std::int64_t kSecondsMax = 3'200'000'000;  // about a century, in seconds

// Returns a problem for each rule that the resources of an attempt break. For example, the size of
// a segment must divide the number of nodes. `path` is the path of these resources in the
// job file.
std::vector<Problem> resource_problems(const Resources& wanted, const std::string& path);

// Returns the problems of `resources` of a job file and of its variants. Requires that the document
// has passed the schema's check and has all defaults.
std::vector<Problem> check_resources(const Json& document);

// Returns a problem for each rule that the specification, or a later job of its chain, breaks.
// Numbers have the same limits as in schemas/job.schema.json.
std::vector<Problem> spec_problems(const JobSpec& spec);

// Fails with InvalidArgument and the first problem of spec_problems(), if there is one.
Result<void> check_spec(const JobSpec& spec);

// Returns a problem for each reference to an unknown job, and for arrays or chains inside a chain.
std::vector<Problem> check_chain(const JobSpec& first);

}  // namespace roll::spec
