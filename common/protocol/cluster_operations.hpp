// The operations on nodes and secrets: their arguments and replies.
#pragma once

#include <optional>
#include <string>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

struct DrainArgs {
    static constexpr Operation kOperation{"drain", Access::Operate, Answering::AfterTurn,
                                          "roll.node/1", "Stops starting jobs on nodes."};
    std::string node{};
    std::optional<std::string> message{};
};
struct UndrainArgs {
    static constexpr Operation kOperation{"undrain", Access::Operate, Answering::AfterTurn,
                                          "roll.node/1", "Starts jobs on nodes again."};
    std::string node{};
};
struct NodeReply {
    std::string node{};
    bool draining = false;
};

struct SecretSetArgs {
    static constexpr Operation kOperation{"secret_set", Access::Change, Answering::AfterTurn,
                                          "roll.secret/1", "Stores a secret for jobs."};
    std::string name{};
    std::string user{};
    std::string value{};
};
struct SecretRemoveArgs {
    static constexpr Operation kOperation{"secret_remove", Access::Change, Answering::AfterTurn,
                                          "roll.secret/1", "Removes a secret."};
    std::string name{};
    std::string user{};
};
struct SecretReply {
    std::string user{};
    std::string name{};
    bool set = false;
    bool replaced = false;
};
struct SecretListArgs {
    static constexpr Operation kOperation{"secret_list", Access::Read, Answering::AtOnce,
                                          "roll.secrets/1", "Lists the names of secrets."};
};

// clang-format off
template <class V> void fields(V& v, DrainArgs& a) {
    v("node", a.node, "name of the node; left out: all nodes");
    v("message", a.message, "reason, which is shown with waiting jobs");
}
template <class V> void fields(V& v, UndrainArgs& a) { v("node", a.node, "name of the node; left out: all nodes"); }
template <class V> void fields(V& v, NodeReply& r) {
    v("node", r.node, "name of the node");
    v("draining", r.draining, "true: no new jobs are started");
}
template <class V> void fields(V& v, SecretSetArgs& a) {
    v.needs("name", a.name, "name of the secret");
    v("user", a.user, "owner of the secret; only the operator may name another user");
    v.needs("value", a.value, "the secret, 1 to 16384 bytes of UTF-8");
}
template <class V> void fields(V& v, SecretRemoveArgs& a) {
    v.needs("name", a.name, "name of the secret");
    v("user", a.user, "owner of the secret; only the operator may name another user");
}
template <class V> void fields(V& v, SecretReply& r) {
    v("user", r.user, "owner of the secret");
    v("name", r.name, "name of the secret");
    v("set", r.set, "true: the secret was stored; false: it was removed");
    v("replaced", r.replaced, "whether a secret with this name existed before");
}
template <class V> void fields(V&, SecretListArgs&) {}
// clang-format on

}  // namespace roll::protocol
