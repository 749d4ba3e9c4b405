// The operations on allocation queues and allocations: their arguments and replies.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "common/protocol/arguments.hpp"

namespace roll::protocol {

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
// The queue or the allocation that an operation changes.
struct QueueName {
    std::string queue{};
};
struct AllocationNumber {
    std::uint64_t allocation = 0;
};
struct AllocPauseArgs : QueueName {
    static constexpr Operation kOperation{"alloc_pause", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1",
                                          "Stops requesting allocations for a queue."};
};
struct AllocResumeArgs : QueueName {
    static constexpr Operation kOperation{"alloc_resume", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1",
                                          "Requests allocations for a queue again."};
};
struct AllocRemoveArgs : QueueName {
    static constexpr Operation kOperation{"alloc_remove", Access::Operate, Answering::AfterTurn,
                                          "roll.queue/1", "Removes an allocation queue."};
};
struct AllocCloseArgs : AllocationNumber {
    static constexpr Operation kOperation{"alloc_close", Access::Operate, Answering::AfterTurn,
                                          "roll.allocation/1",
                                          "Starts no more jobs in an allocation; releases it when "
                                          "its jobs have ended."};
};
struct AllocCancelArgs : AllocationNumber {
    static constexpr Operation kOperation{"alloc_cancel", Access::Operate, Answering::AfterTurn,
                                          "roll.allocation/1",
                                          "Releases an allocation; its jobs stop and wait again."};
};
struct AllocationReply {
    std::uint64_t allocation = 0;
    bool changed = false;
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

// clang-format off
template <class V> void fields(V&, AllocListArgs&) {}
template <class V> void fields(V& v, AllocAddArgs& a) { v.needs("queue", a.queue, "the queue's settings, as `alloc_list` shows them"); }
template <class V, std::derived_from<QueueName> Args> void fields(V& v, Args& a) { v.needs("queue", a.queue, "name of the queue"); }
template <class V, std::derived_from<AllocationNumber> Args> void fields(V& v, Args& a) {
    v.needs("allocation", a.allocation, "number of the allocation");
}
template <class V> void fields(V& v, AllocationReply& r) {
    v("allocation", r.allocation, "number of the allocation");
    v("changed", r.changed, "whether the allocation was changed");
}
template <class V> void fields(V& v, QueueReply& r) {
    v("queue", r.queue, "name of the queue");
    v("changed", r.changed, "whether the queue was changed");
}
template <class V> void fields(V& v, AllocDryRunArgs& a) {
    v("queue", a.queue, "name of the queue");
    v("spec", a.spec, "instead of `queue`: the settings of a queue");
}
// clang-format on

}  // namespace roll::protocol
