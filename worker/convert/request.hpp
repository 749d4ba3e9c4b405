// A conversion as a job: what `rollctl convert --submit` queues, and what roll-convert makes of it.
#pragma once

#include "common/spec/convert.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// Threads, --verify and --dry-run stay behind: a job has its slots' threads and always verifies.
spec::ConvertSpec spec_of(const Request& request);

// InvalidArgument names the format or type that there is not. An empty source stays empty.
Result<Request> request_of(const spec::ConvertSpec& spec);

}  // namespace roll::convert
