// Translates a conversion's request into a job's spec and back: `rollctl convert --submit` queues
// the job, roll-convert runs it.
#pragma once

#include "common/spec/convert.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// Returns the job's spec of a request. Omits threads, --verify and --dry-run, because a job uses
// the threads of its slots and always verifies.
spec::ConvertSpec spec_of(const Request& request);

// Returns the request of a job's spec. If the spec has no source, the request has none. Fails with
// InvalidArgument if a format or type is unknown; the message names it.
Result<Request> request_of(const spec::ConvertSpec& spec);

}  // namespace roll::convert
