// The operations on nodes, allocation queues and secrets: their arguments and replies.
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

struct AllocListArgs {
    static constexpr Operation kOperation{"alloc_list", Access::Read, Answering::AtOnce,
                                          "roll.allocations/1",
                                          "Lists allocation queues and allocations."};
};
struct AllocAddArgs {
    static constexpr Operation kOperation{"alloc_add", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1", "Adds an allocation queue."};
    Json queue{};
};
struct AllocPauseArgs {
    static constexpr Operation kOperation{"alloc_pause", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1",
                                          "Stops requesting allocations for a queue."};
    std::string queue{};
};
struct AllocResumeArgs {
    static constexpr Operation kOperation{"alloc_resume", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1",
                                          "Requests allocations for a queue again."};
    std::string queue{};
};
struct AllocRemoveArgs {
    static constexpr Operation kOperation{"alloc_remove", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1", "Removes an allocation queue."};
    std::string queue{};
};
struct QueueReply {
    std::string queue{};
    bool changed = false;
};
struct AllocDryRunArgs {
    static constexpr Operation kOperation{"alloc_dry_run", Access::Read, Answering::AtOnce,
                                          "roll.alloc_dry_run/1",
                                          "Shows the command that would request an allocation."};
    std::optional<std::string> queue{};
    Json spec{};
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
template <class V> void fields(V&, AllocListArgs&) {}
template <class V> void fields(V& v, AllocAddArgs& a) { v.needs("queue", a.queue, "the queue's settings, as `alloc_list` shows them"); }
template <class V> void fields(V& v, AllocPauseArgs& a) { v.needs("queue", a.queue, "name of the queue"); }
template <class V> void fields(V& v, AllocResumeArgs& a) { v.needs("queue", a.queue, "name of the queue"); }
template <class V> void fields(V& v, AllocRemoveArgs& a) { v.needs("queue", a.queue, "name of the queue"); }
template <class V> void fields(V& v, QueueReply& r) {
    v("queue", r.queue, "name of the queue");
    v("changed", r.changed, "whether the queue was changed");
}
template <class V> void fields(V& v, AllocDryRunArgs& a) {
    v("queue", a.queue, "name of the queue");
    v("spec", a.spec, "instead of `queue`: the settings of a queue");
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
