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

// Decides how this rolld starts. Fails with Refused in three cases:
// - Another rolld's beacon changes while this function watches it.
// - The ledger is older than the beacon, and --take-over is not set.
// - Another machine wrote the beacon, and --take-over is not set: a rolld may still run there.
// If another state directory on this machine wrote the beacon, and the beacon does not change, this
// rolld takes over even without --take-over. Watching the beacon and taking over block for seconds.
//
// To take over, this function writes a claim to the beacon and reads it back. At first, this rolld
// then only adopts running jobs and starts none. This lasts for 35 ticks (updates of the beacon)
// plus the time for which the older rolld may run without reading the beacon (`volume_patience`).
// If the older rolld's `volume_patience` is longer, this rolld uses it.
//
// If this process ends before the ledger has the incarnation of the take-over, the next start from
// this state directory repeats the take-over.
Result<core::Started> claim_beacon(ServerOptions& options, const core::State& state);

}  // namespace roll::server
