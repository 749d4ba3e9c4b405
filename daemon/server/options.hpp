// What a rolld is told when it starts.
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
    std::string endpoint;              // to bind
    std::string local{};               // Unix socket for clients of this machine; empty: none
    io::CurveKeys keys;                // of the server
    std::filesystem::path authorized;  // directory of public keys
    std::filesystem::path beacon;      // empty: none
    std::filesystem::path secrets;     // directory of the users' secrets
    std::filesystem::path workers{};   // run directories of workers on this machine
    std::string cluster;               // names the ledger
    std::string home{};                // names the state directory (ledger::identity)
    std::string nonce;                 // of this process
    spec::Policy policy;               // of rolld.yaml
    gateway::LeaseRules leases;
    bool take_over = false;             // another rolld's beacon, which stands still (rule 17)
    double requests_per_second = 5000;  // of each user; 0: no limit
    double request_burst = 20000;
    std::size_t connections_max = 20'000;
    slurm::Site site;  // where pilots find what they need
    pilots::DeskRules pilots;
};

}  // namespace roll::server
