// The meeting point of a gang's processes: an address and a free port of the gang's first node. The
// first node writes both to a file in the job's output directory, which all nodes share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/io/descriptor.hpp"
#include "worker/agent/core/lease.hpp"
#include "worker/agent/process/guard_plan.hpp"

namespace roll::agent {

// A TCP port that nothing on this machine used when it was chosen. While `held` is open, no other
// gang on this machine gets the port.
struct FreePort {
    int number = 0;
    io::Descriptor held{};
};

// Returns a free port below the range from which the kernel takes ports for connections. `seed`
// decides where the search begins. Fails with Unavailable if no port is free.
Result<FreePort> choose_port(std::uint64_t seed);

struct Meeting {
    std::string address;  // address of the first node; empty if unknown
    std::string host;     // the first node's host name
    std::string network;  // network_id() of the first node
    int port = 0;

    // Returns the value of MASTER_ADDR for a node whose network_id() is `own_network`.
    std::string address_from(const std::string& own_network) const;
};

Result<void> publish(const std::string& file, const Meeting& meeting);

// Reads a meeting file. Returns nullopt if the file does not exist yet.
Result<std::optional<Meeting>> read_meeting(const std::string& file);

// The meeting of one attempt's gang, as seen by the guard on this node. If the attempt is not a
// gang, met() returns true at once.
class GangMeeting {
  public:
    // Writes the host file. On the first node, also chooses the port and publishes it.
    Result<void> open(const Gang& gang);
    // Returns whether the first node has published the meeting point. Fails with Failed if that
    // takes too long.
    Result<bool> met();
    bool waits() const { return until_.has_value(); }  // true after met() has returned false
    // Adds MASTER_ADDR and MASTER_PORT to a program's variables unless they are already set.
    void add_to(std::vector<std::string>& environment) const;

  private:
    std::optional<Gang> gang_{};
    FreePort port_{};
    std::optional<Meeting> met_{};
    std::optional<Instant> until_{};
};

}  // namespace roll::agent
