// A conversion as a job: `rollctl convert --submit` queues it, roll-convert runs it.
#pragma once

#include "common/spec/convert.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// Omits threads, --verify and --dry-run: a job uses its slots' threads and always verifies.
spec::ConvertSpec spec_of(const Request& request);

// Fails with InvalidArgument and the unknown format or type. An empty source stays empty.
Result<Request> request_of(const spec::ConvertSpec& spec);

}  // namespace roll::convert
