// The names of the fields of each event, used by the encoder and the decoder.
#pragma once

#include "daemon/core/state/event.hpp"

namespace roll::ledger {

// clang-format off
template <class V> void fields(V& v, core::IncarnationRaised& e) {
    v("incarnation", e.incarnation); v("at", e.at); v.added("next_job", e.next_job);
}
template <class V> void fields(V& v, core::JobSubmitted& e) {
    v("job", e.job); v("key", e.key); v("user", e.user);
    v("spec", e.spec); v("at", e.at); v.added("array", e.array);
    v.added("cron", e.cron);
}
template <class V> void fields(V& v, core::ExportQueued& e) { v("parent", e.parent); v("job", e.job); }
template <class V> void fields(V& v, core::JobHeld& e) { v("job", e.job); v("held", e.held); v.added("by", e.by); }
template <class V> void fields(V& v, core::JobClosed& e) { v("job", e.job); v.added("by", e.by); }
template <class V> void fields(V& v, core::JobPriorityChanged& e) { v("job", e.job); v("priority", e.priority); v.added("by", e.by); }
template <class V> void fields(V& v, core::JobCancelRequested& e) {
    v("job", e.job); v("reason", e.reason); v("at", e.at); v.added("by", e.by);
    v.added("halved", e.halved);
}
template <class V> void fields(V& v, core::JobRequeued& e) {
    v("job", e.job); v("not_before", e.not_before);
    v("infra_failures", e.infra_failures); v("app_failures", e.app_failures);
    v.added("timeouts", e.timeouts); v.added("preemptions", e.preemptions); v.added("avoid", e.avoid);
}
template <class V> void fields(V& v, core::JobEnded& e) {
    v("job", e.job); v("phase", e.phase); v("exit_code", e.exit_code);
    v("reason", e.reason); v("at", e.at);
}
template <class V> void fields(V& v, core::AttemptPlaced& e) {
    v("attempt", e.attempt); v("places", e.places); v("at", e.at); v.added("variant", e.variant);
}
template <class V> void fields(V& v, core::AttemptStarted& e) { v("attempt", e.attempt); v("at", e.at); }
template <class V> void fields(V& v, core::AttemptStopping& e) {
    v("attempt", e.attempt); v("reason", e.reason); v.added("preempted", e.preempted);
}
template <class V> void fields(V& v, core::MemberEnded& e) {
    v("attempt", e.attempt); v("worker", e.worker); v("outcome", e.outcome);
    v("exit_code", e.exit_code); v("reason", e.reason); v.added("matched", e.matched);
    v.added("usage", e.usage);
}
template <class V> void fields(V& v, core::MachineExcluded& e) {
    v("machine", e.machine); v("until", e.until); v("reason", e.reason); v("at", e.at);
}
template <class V> void fields(V& v, core::MachineForgiven& e) { v("machine", e.machine); v.added("by", e.by); }
template <class V> void fields(V& v, core::AttemptEnded& e) {
    v("attempt", e.attempt); v("outcome", e.outcome); v("exit_code", e.exit_code);
    v("reason", e.reason); v("at", e.at);
}
template <class V> void fields(V& v, core::CheckpointRecorded& e) {
    v("attempt", e.attempt); v("step", e.step);
    v("directory", e.directory); v("at", e.at); v.added("asked", e.asked);
    v.added("save_ms", e.save_ms);
}
template <class V> void fields(V& v, core::AttemptFenced& e) {
    v("attempt", e.attempt); v("worker", e.worker); v("node", e.node); v("at", e.at);
}
template <class V> void fields(V& v, core::CheckpointAsked& e) {
    v("attempt", e.attempt); v("number", e.number); v.added("by", e.by);
}
template <class V> void fields(V& v, core::TrainingAsked& e) {
    v("attempt", e.attempt); v("number", e.request.number); v("what", e.request.kind);
    v("value", e.request.value); v.added("by", e.by);
}
template <class V> void fields(V& v, core::TrainingAnswered& e) {
    v("attempt", e.attempt); v("number", e.answer.number); v("step", e.answer.step);
    v("text", e.answer.text); v("at", e.at); v.added("stop_step", e.answer.stop_step);
}
template <class V> void fields(V& v, core::CheckpointPruned& e) { v("job", e.job); v("step", e.step); v("token", e.token); }
template <class V> void fields(V& v, core::ExportRecorded& e) {
    v("attempt", e.attempt); v("directory", e.directory); v("at", e.at); v.added("step", e.step);
    v.added("oldest", e.oldest);
}
template <class V> void fields(V& v, core::WorkerJoined& e) {
    v("worker", e.worker); v("node", e.node); v("session", e.session);
    v("slots", e.slots); v("gpus", e.gpus); v("at", e.at); v.added("generation", e.generation);
    v.added("segment", e.segment); v.added("gpu_numa", e.gpu_numa);
    v.added("memory", e.memory); v.added("cpus", e.cpus); v.added("home", e.home);
}
template <class V> void fields(V& v, core::WorkerDrained& e) {
    v("worker", e.worker); v("draining", e.draining); v.added("by", e.by); v.added("node", e.node);
}
template <class V> void fields(V& v, core::WorkerQuiet& e) { v("worker", e.worker); v("quiet", e.quiet); v.added("node", e.node); }
template <class V> void fields(V& v, core::DispatchStopped& e) { v("stopped", e.stopped); v("why", e.why); v.added("by", e.by); }
template <class V> void fields(V& v, core::AdoptingSet& e) { v("adopting", e.adopting); }
template <class V> void fields(V& v, core::WorkerLost& e) {
    v("worker", e.worker); v("reason", e.reason); v("at", e.at); v.added("node", e.node);
}
template <class V> void fields(V& v, core::JobBeginChanged& e) {
    v("job", e.job); v("begin", e.begin); v("at", e.at); v.added("by", e.by);
}
template <class V> void fields(V& v, core::PolicySet& e) { v("policy", e.policy); v("at", e.at); }
template <class V> void fields(V& v, core::SecretsKnown& e) { v("names", e.names); }
template <class V> void fields(V& v, core::JobDue& e) { v("job", e.job); }
template <class V> void fields(V& v, core::MemberUp& e) { v("attempt", e.attempt); v("worker", e.worker); }
template <class V> void fields(V& v, core::QueueAdded& e) { v("queue", e.queue); v("at", e.at); v.added("by", e.by); }
template <class V> void fields(V& v, core::QueuePaused& e) {
    v("queue", e.queue); v("paused", e.paused); v("reason", e.reason); v.added("by", e.by);
}
template <class V> void fields(V& v, core::QueueRemoving& e) { v("queue", e.queue); v.added("by", e.by); }
template <class V> void fields(V& v, core::QueueRemoved& e) { v("queue", e.queue); }
template <class V> void fields(V& v, core::AllocationOrdered& e) {
    v("allocation", e.allocation); v("queue", e.queue);
    v("incarnation", e.incarnation); v("at", e.at);
}
template <class V> void fields(V& v, core::AllocationAccepted& e) { v("allocation", e.allocation); v("slurm_job", e.slurm_job); }
template <class V> void fields(V& v, core::AllocationGranted& e) { v("allocation", e.allocation); v("at", e.at); v("ends_at", e.ends_at); }
template <class V> void fields(V& v, core::AllocationReturned& e) { v("allocation", e.allocation); }
template <class V> void fields(V& v, core::AllocationClosed& e) { v("allocation", e.allocation); v("by", e.by); }
template <class V> void fields(V& v, core::AllocationReleasing& e) {
    v("allocation", e.allocation); v("failed", e.failed); v("reason", e.reason);
}
template <class V> void fields(V& v, core::AllocationEnded& e) {
    v("allocation", e.allocation); v("failed", e.failed);
    v("reason", e.reason); v("at", e.at);
}
template <class V> void fields(V& v, core::PilotJoined& e) { v("worker", e.worker); v("allocation", e.allocation); v("at", e.at); }
template <class V> void fields(V& v, core::ClockStepped& e) { v("by_ms", e.by_ms); v("at", e.at); }
template <class V> void fields(V& v, core::UseCarried& e) {
    v("account", e.account); v("user", e.user); v("gpu_ms", e.gpu_ms);
    v("decayed", e.decayed); v("at", e.at);
}
// clang-format on

}  // namespace roll::ledger
