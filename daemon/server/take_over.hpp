// Whether this rolld may serve, by the beacon that another one wrote (leases rules 17 and 19).
//
// The lock of the ledger tells of a rolld on this machine. One on another machine, or one that goes
// on with a copy of this ledger, is seen by its beacon alone.
#pragma once

#include <cstdint>

#include "daemon/server/server.hpp"

namespace roll::server {

// The first record of this process.
io::Beacon own_beacon(const ServerOptions& options, std::uint64_t incarnation);

// How to start. Refused: the beacon is of a rolld elsewhere that goes on, or of one on another
// machine that may and nobody said --take-over; or the ledger is older than the beacon. A rolld
// with another state directory on this machine counts as elsewhere; if its beacon stands still,
// this one takes over unasked. To take over it claims the beacon and reads it back; then nothing is
// started before 35 beats, and as many as the older one may go on without reading it
// (volume_patience becomes the longer of both), only adopted. Takes its time where another
// machine's rolld wrote the beacon.
Result<core::Started> claim_beacon(ServerOptions& options, const core::State& state);

}  // namespace roll::server
