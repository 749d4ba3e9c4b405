// A checker for the part of JSON Schema that schemas/job.schema.json uses, which reports every
// problem at once in words. Pure but for missing_files.
//
// Read: type, properties, required, additionalProperties, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, minLength, pattern, items, minItems, oneOf (branches told
// apart by their types), if/then/else, allOf, default, description; `false` for a key that may not
// be there. Ours: "format"s of string_format.hpp; x-allowed, the words for a pattern; x-built, the
// values of an enum (or false: none) that are built already; x-built-suffixes, the same for file
// names; x-path, a string that is a path; x-exists, one that must be there; x-also, names that
// other programs have for a key: told with the key's own name where they are used; x-foreign, the
// top keys by which other programs' files are known.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/spec/embedded_json.hpp"
#include "common/spec/job.hpp"

namespace roll::spec {

EmbeddedJson job_schema();     // schemas/job.schema.json, its descriptions left out
EmbeddedJson policy_schema();  // schemas/rolld.schema.json

// A problem's message continues its path: "train.steps" "is missing".
std::vector<Problem> check(EmbeddedJson schema, const Json& value);

// Puts in the defaults of absent keys, in sections that are there or have a default themselves.
void fill_defaults(EmbeddedJson schema, Json& value);

void make_paths_absolute(EmbeddedJson schema, Json& value, const std::string& base);
std::vector<Problem> missing_files(EmbeddedJson schema, const Json& value);

// What a value may be, in words: "an integer, at least 1", "constant or cosine".
std::string allowed(EmbeddedJson schema);

// The path of the first key of the schema that has this name or, by x-also, this other name:
// "train.optimizer.lr" for "lr" and "learning_rate". nullopt if there is none.
std::optional<std::string> path_of_key(EmbeddedJson schema, std::string_view name);

}  // namespace roll::spec
