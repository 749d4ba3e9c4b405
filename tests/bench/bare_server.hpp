// A server that does the least possible work for a number of workers: libzmq with CURVE, and an
// answer to each message. The benchmark prints its costs beside rolld's costs of the same run.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::bench {

// Binds the endpoint and answers every heartbeat. Returns only if it cannot bind.
Result<void> be_bare_server(const io::CurveKeys& keys, const std::string& endpoint);

}  // namespace roll::bench
