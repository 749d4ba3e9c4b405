// The data that handlers may read, and the caller of a request.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/protocol/view_operations.hpp"
#include "daemon/api/outputs.hpp"
#include "daemon/files/pieces.hpp"
#include "daemon/gateway/authenticator.hpp"
#include "daemon/ledger/ledger.hpp"
#include "daemon/query/query.hpp"
#include "daemon/secrets/store.hpp"
#include "daemon/slurm/commands.hpp"
#include "daemon/tokens/store.hpp"

namespace roll::api {

using gateway::Role;

// The caller of a request.
struct Caller {
    Role role = Role::None;
    std::string user;
    // highest level of access that the caller has
    protocol::Access access = protocol::Access::Operate;
    bool by_token = false;  // true if the request came over HTTP with a token of the user
};

struct Context {
    const core::State& state;
    const ledger::Ledger& ledger;
    secrets::Store& secrets;
    tokens::Store& tokens;
    Outputs& outputs;
    files::Pieces& pieces;
    const slurm::Site& site;
    const std::string& cluster;   // id of the ledger
    const std::string& endpoint;  // address that rolld binds
    std::function<query::Hearsay()> hearsay;
    std::function<protocol::VersionReply()> version;
    // Returns the role of a user according to the current keys. Returns Role::None if the user has
    // no key.
    std::function<Role(const std::string& user)> role_of;
    Time now{};
};

// Returns the user for whom a request is made. Usually this is the caller. An operator may name
// another user in `said`. An empty `said` names no user.
inline std::string acting_user(const Caller& who, const std::string& said) {
    return who.role == Role::Operator && !said.empty() ? said : who.user;
}

// Fails with Refused if a job belongs to another user and the caller is not an operator.
Result<void> owns(const Context& context, const Caller& who, const std::vector<JobId>& ids);

// Checks a text that other users will read. Fails with InvalidArgument if `text` has control
// characters or more than 1,000 bytes. `what` is the name of the argument.
Result<void> check_line(const char* what, const std::string& text);

// Fails with Refused if the request came with a token. The message names the action `what` and
// `command`, the command that does the action with a key.
Result<void> needs_key(const Caller& who, const char* what, const char* command);

}  // namespace roll::api
