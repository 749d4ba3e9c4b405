// Decides from the beacon of another rolld whether this rolld may serve (leases rules 17 and 19).
//
// The ledger's lock excludes another rolld on this machine. A rolld on another machine, or one that
// uses a copy of this ledger, is visible only in its beacon.
#pragma once

#include <cstdint>

#include "common/io/beacon.hpp"
#include "daemon/core/state/input.hpp"
#include "daemon/core/state/state.hpp"
#include "daemon/server/options.hpp"

namespace roll::server {

// Returns the first beacon record that this process writes.
io::Beacon own_beacon(const ServerOptions& options, std::uint64_t incarnation);

// Returns how this rolld must start.
//
// Fails with Refused if the ledger is older than the beacon, or if the beacon belongs to a running
// rolld elsewhere. Also fails if that rolld is on another machine and may be running, unless
// --take-over is set. A rolld with another state directory on this machine counts as elsewhere. If
// its beacon is unchanged, this rolld takes over without --take-over.
//
// Taking over means to write a claim to the beacon and to read it back. Jobs are then only adopted,
// not started, for 35 beats plus the time for which the older rolld may continue without reading
// the beacon. `volume_patience` becomes the longer of both rollds' values.
//
// If the take-over ends before the ledger has its incarnation, the next start from this state
// directory repeats it.
//
// If a rolld on another machine wrote the beacon, blocks to observe whether the beacon changes.
Result<core::Started> claim_beacon(ServerOptions& options, const core::State& state);

}  // namespace roll::server
