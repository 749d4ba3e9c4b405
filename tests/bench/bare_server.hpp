// The least that a server of so many workers costs: libzmq with CURVE, and each message answered.
// What rolld takes is told beside it, in the same run.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/io/curve_keys.hpp"

namespace roll::bench {

// Binds, and answers every heartbeat for ever.
Result<void> be_bare_server(const io::CurveKeys& keys, const std::string& endpoint);

}  // namespace roll::bench
