// What handlers may look at, and the caller of a request.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/protocol/view_operations.hpp"
#include "daemon/api/outputs.hpp"
#include "daemon/gateway/authenticator.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/query/query.hpp"
#include "daemon/secrets/store.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::api {

using gateway::Identity;
using gateway::Role;

struct Context {
    const core::State& state;
    const ledger::Ledger& ledger;
    secrets::Store& secrets;
    Outputs& outputs;
    const slurm::Site& site;
    const std::string& cluster;   // id of the ledger
    const std::string& endpoint;  // address that rolld binds
    std::function<query::Hearsay()> hearsay;
    std::function<protocol::VersionReply()> version;
    Time now{};
};

// Returns the user for whom a request acts: `said` if an operator names another user, else the
// caller.
inline std::string acting_user(const Identity& who, const std::string& said) {
    return who.role == Role::Operator && !said.empty() ? said : who.user;
}

// Fails with Refused if a job belongs to another user and the caller is no operator.
Result<void> owns(const Context& context, const Identity& who, const std::vector<JobId>& ids);

}  // namespace roll::api
