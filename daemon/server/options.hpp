// rolld's options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/io/curve_keys.hpp"
#include "common/spec/policy.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/pilots/desk.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::server {

struct ServerOptions {
    std::string endpoint;              // address to bind
    std::string local{};               // Unix socket for local clients; empty: none
    io::CurveKeys keys;                // the server's keys
    std::filesystem::path authorized;  // directory of public keys
    std::filesystem::path beacon;      // path of the beacon file; empty: none
    std::filesystem::path secrets;     // directory of the users' secrets
    std::filesystem::path workers{};   // run directories of workers on this machine
    std::string cluster;               // name of the ledger
    std::string home{};                // name of the state directory (ledger::identity)
    std::string nonce;                 // unique per process
    spec::Policy policy;               // from rolld.yaml
    gateway::LeaseRules leases;
    bool take_over = false;  // take over from another rolld whose beacon is unchanged (rule 17)
    double requests_per_second = 5000;  // maximum rate per user; 0: no limit
    double request_burst = 20000;
    std::size_t connections_max = 20'000;
    slurm::Site site;  // paths used by pilots
    pilots::DeskRules pilots;
};

}  // namespace roll::server
