// Options of rolld's server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/io/curve_keys.hpp"
#include "common/spec/job/policy.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/pilots/desk.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::server {

struct ServerOptions {
    std::string endpoint;              // address to bind
    std::string local{};               // Unix socket for local clients; empty: none
    io::CurveKeys keys;                // CURVE key pair of the server
    std::filesystem::path authorized;  // directory with the clients' public keys
    std::filesystem::path beacon;      // path of the beacon file; empty: none
    std::filesystem::path secrets;     // directory of the users' secrets
    // Directory with the run directories of workers on this machine.
    std::filesystem::path workers{};
    std::string cluster;  // random id of the ledger
    std::string home{};   // id of the state directory (see ledger::identity)
    std::string nonce;    // random id of this process
    spec::Policy policy;  // policy from rolld.yaml
    gateway::LeaseRules leases;
    // Take over even if another rolld may still run, as long as its beacon does not change (leases
    // rule 17).
    bool take_over = false;
    double requests_per_second = 5000;  // maximum rate of requests per user; 0: no limit
    double request_burst = 20000;
    std::size_t connections_max = 20'000;
    std::uint64_t job_files_bytes = 16u << 20;  // maximum size of the files of a job
    slurm::Site site;  // paths and environment for allocation requests to Slurm
    pilots::DeskRules pilots;
};

}  // namespace roll::server
