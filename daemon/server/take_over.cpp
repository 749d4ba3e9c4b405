#include "daemon/server/take_over.hpp"

#include <thread>

#include <fmt/format.h>
#include <unistd.h>

namespace roll::server {
namespace {

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string rolld_of(const io::Beacon& beacon) {
    return fmt::format("incarnation {} of rolld on {} at {}", beacon.incarnation, beacon.host,
                       beacon.endpoint);
}

// Returns the error for a ledger that is older than the beacon. Such a ledger, for example one
// restored from a copy, lacks decisions of the rolld that wrote the beacon.
tl::unexpected<Error> too_old(const core::State& state, const io::Beacon& beacon) {
    return fail(ErrorCode::Refused,
                fmt::format("the ledger is older than the beacon file: the newest rolld in "
                            "the ledger is incarnation {}, but the beacon file is from {}",
                            state.incarnation, rolld_of(beacon)),
                "put the newest ledger back, or restore an older one safely with `rolld --restore "
                "BACKUP`; if that rolld is dead and this ledger is the newest: rolld --take-over");
}

constexpr const char* kClaim = "claim-";  // prefix of the nonce of a claim

// Writes a claim to the beacon, waits and reads the beacon back. Fails with Refused if another
// rolld has claimed the beacon in between.
Result<void> claim(const ServerOptions& options, std::uint64_t incarnation) {
    io::Beacon own = own_beacon(options, incarnation);
    own.nonce = kClaim + own.nonce;
    ROLL_TRY_VOID(io::write_beacon(options.beacon, own));
    std::this_thread::sleep_for(options.leases.claim_wait);
    ROLL_TRY(const io::Beacon seen, io::read_beacon(options.beacon));
    if (seen.nonce == own.nonce) return {};
    return fail(
        ErrorCode::Refused,
        "another rolld took over at the same time and wrote the beacon file: " + rolld_of(seen),
        "use that rolld; to use this one, first end that rolld, then start this one again");
}

// Returns whether a take-over from this state directory was interrupted after its claim and before
// its first event in the ledger. If so, the claim's incarnation has made no decision, and the
// ledger is complete.
bool is_interrupted_claim(const io::Beacon& seen, const ServerOptions& options,
                          const core::State& state) {
    return seen.nonce.starts_with(kClaim) && seen.incarnation == state.incarnation + 1 &&
           !seen.home.empty() && seen.home == options.home && seen.host == host_name();
}

}  // namespace

io::Beacon own_beacon(const ServerOptions& options, std::uint64_t incarnation) {
    io::Beacon beacon;
    beacon.cluster = options.cluster;
    beacon.incarnation = incarnation;
    beacon.nonce = options.nonce;
    beacon.host = host_name();
    beacon.endpoint = options.endpoint;
    beacon.home = options.home;
    beacon.patience_ms = options.leases.volume_patience.count();
    return beacon;
}

Result<core::Started> claim_beacon(ServerOptions& options, const core::State& state) {
    if (options.beacon.empty()) return core::Started{};
    const auto seen = io::read_beacon(options.beacon);
    if (!seen || seen->cluster != options.cluster) return core::Started{};
    const bool interrupted = is_interrupted_claim(*seen, options, state);
    const bool old = !interrupted && seen->incarnation > state.incarnation;
    // The lock on the state directory does not exclude every other rolld, so compare state
    // directories and hosts. Another rolld may use a copy of the state directory, or run on another
    // machine, even on one with the same host name.
    const bool copied = !seen->home.empty() && seen->home != options.home;
    const bool foreign = seen->host != host_name();
    const bool elsewhere = foreign || copied || interrupted;
    // While this rolld may not start jobs (State::adopting), use the longer `volume_patience`: its
    // own, or that of the rolld that wrote the beacon. State keeps `adopting`, so the longer time
    // also applies after a restart.
    auto& patience = options.leases.volume_patience;
    if (elsewhere || state.adopting)
        patience = std::max(patience, std::chrono::milliseconds(seen->patience_ms));
    // If the beacon is neither newer nor from elsewhere, the previous rolld of this state directory
    // wrote it. That rolld has ended, because this process holds the lock of the directory.
    if (!old && !elsewhere) return core::Started{};
    if (!elsewhere && !options.take_over) return too_old(state, *seen);
    std::this_thread::sleep_for(options.leases.stillness);
    const auto again = io::read_beacon(options.beacon);
    if (!again || *again != *seen) {
        return fail(ErrorCode::Refused,
                    "another rolld serves this cluster and still writes its beacon file: " +
                        rolld_of(again ? *again : *seen),
                    "stop that rolld first");
    }
    if (!options.take_over && old) return too_old(state, *seen);
    if (!options.take_over && foreign) {
        return fail(
            ErrorCode::Refused,
            "the beacon file was written by " + rolld_of(*seen) + ", which no longer updates it",
            "if that rolld is dead: rolld --take-over");
    }
    const std::uint64_t incarnation =
        interrupted ? seen->incarnation : std::max(seen->incarnation, state.incarnation) + 1;
    ROLL_TRY_VOID(claim(options, incarnation));
    return core::Started{incarnation, true};
}

}  // namespace roll::server
