// A checker for the part of JSON Schema that schemas/job.schema.json uses. It reports all problems
// at once, in words. Pure except for missing_files().
//
// Supports: type, properties, required, additionalProperties, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, minLength, pattern, items, minItems, oneOf (branches must
// differ in type), if/then/else, allOf, default, description; `false` for a forbidden key.
//
// Extensions: "format"s of string_format.hpp; x-allowed, what is allowed, in words; x-built, the
// implemented values of an enum (false if none); x-built-suffixes, the same for file names; x-path,
// a string that is a path; x-exists, a path that must exist; x-also, other programs' names for a
// key, used in "did you mean"; x-instead, the advice for files of an unsupported format: it maps
// the ending of the file's name to a text, in which FILE stands for the name without the ending;
// x-foreign, top-level keys that identify other programs' files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/schema/problem.hpp"

namespace roll::spec {

const OrderedJson& job_schema();     // returns the parsed schemas/job.schema.json
const OrderedJson& policy_schema();  // returns the parsed schemas/rolld.schema.json

// Returns all problems of `value`. The path and the message of a problem form a sentence:
// "train.steps" "is missing".
std::vector<Problem> check(const OrderedJson& schema, const Json& value);

// Sets each missing key that has a default. Adds a missing section only if the section itself has a
// default. The keys of any other missing section stay missing.
void fill_defaults(const OrderedJson& schema, Json& value);

void make_paths_absolute(const OrderedJson& schema, Json& value, const std::string& base);
std::vector<Problem> missing_files(const OrderedJson& schema, const Json& value);

// Describes the allowed values: "an integer, at least 1", "constant or cosine".
std::string allowed(const OrderedJson& schema);

// Returns the path of the first key with this name or this x-also name, e.g. "train.optimizer.lr"
// for "lr" and "learning_rate"; nullopt if there is none.
std::optional<std::string> path_of_key(const OrderedJson& schema, std::string_view name);

}  // namespace roll::spec
