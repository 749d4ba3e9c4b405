#include "daemon/dispatch/dispatch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/spec/job/document.hpp"
#include "common/spec/job/staged_files.hpp"
#include "daemon/core/decide/decide.hpp"
#include "daemon/core/facts/save_margin.hpp"

namespace roll::dispatch {
namespace {

void add_checkpoints(const core::Job& job, std::vector<protocol::WrittenCheckpoint>& list) {
    for (auto it = job.checkpoints.rbegin(); it != job.checkpoints.rend(); ++it) {
        protocol::WrittenCheckpoint checkpoint;
        checkpoint.step = it->step;
        checkpoint.directory = it->directory;
        checkpoint.writer = it->token;
        list.push_back(std::move(checkpoint));
    }
}

std::string nonce(const std::string& cluster, const AttemptKey& key) {
    const std::string name = cluster + " " + std::to_string(key.job.value) + " ";
    return to_hex(hash64(name + to_string(key.token)));
}

// Returns the job's document, with the resources of the variant that its attempt uses.
Result<std::string> document_of(const core::Job& job) {
    if (job.spec.variants.empty()) return job.spec.document.text();
    ROLL_TRY(const Json document, spec::read_document(job.spec.document.text()));
    ROLL_TRY_VOID(spec::check_variants(document, job.spec.variants.size()));
    return spec::with_variant(document, job.attempt->variant).dump();
}

// Returns the names of the attempt's nodes in the order of their ranks, without spares.
std::vector<std::string> hosts_of(const core::State& state, const core::Job& job) {
    std::vector<std::string> hosts;
    for (const core::Place& place : job.attempt->places) {
        const auto worker = state.workers.find(place.worker);
        if (std::ssize(hosts) == job.resources().nodes) break;
        hosts.push_back(worker == state.workers.end() ? "" : worker->second.node);
    }
    return hosts;
}

protocol::StartOrder start_order(const core::State& state, const core::StartMember& action,
                                 const std::string& cluster) {
    const core::Job& job = state.jobs.at(action.attempt.job);
    const auto& places = job.attempt->places;
    const auto place = std::ranges::find(places, action.worker, &core::Place::worker);
    protocol::StartOrder order;
    order.attempt = action.attempt;
    order.kind = spec::name_of(job.spec.kind);
    if (auto document = document_of(job))
        order.document = *std::move(document);
    else
        order.refused = document.error().message;
    order.output = job.spec.output;
    order.node_rank = static_cast<int>(place - places.begin());
    order.nodes = job.resources().nodes;
    order.adds_cpu_times = order.nodes > 1;
    order.ranks_per_node = job.resources().ranks_per_node();
    order.memory = place->memory;
    order.cpus = place->cpus;
    order.tasks_per_node = job.resources().tasks_per_node;
    if (order.tasks_per_node > 0) {
        order.hosts = hosts_of(state, job);
        order.slurm_variables = state.policy.gang_slurm_variables;
    }
    order.stop_step = job.stop_step;
    order.files = spec::has_files(job.spec);
    order.gpu_percent = place->gpu_percent;
    order.slots = place->slots;
    order.gpus = place->gpus;
    order.nonce = nonce(cluster, action.attempt);
    add_checkpoints(job, order.checkpoints);
    if (job.spec.source_job)
        add_checkpoints(state.jobs.at(*job.spec.source_job), order.checkpoints);
    order.time_limit_seconds = job.resources().time.count();
    order.hang_after_seconds = job.spec.hang_after.value_or(std::chrono::seconds(-1)).count();
    return order;
}

// Shortens a reason. Reasons are only displayed, and a long reason could make the order too large
// to send.
std::string brief(const std::string& reason) {
    constexpr std::size_t kReasonBytesMax = 1000;
    std::string text(reason, 0, kReasonBytesMax);
    if (text.size() < reason.size()) text += "...";
    return text;
}

std::size_t bytes_of(const protocol::StartOrder& order) {
    protocol::Answer alone;
    alone.start = {order};
    return protocol::encode(alone).size();
}

// Returns the next frame to fill. The frame names the same attempts as `answer`, but has no start
// orders yet.
protocol::Answer next_frame(const protocol::Answer& answer) {
    protocol::Answer next = answer;
    next.start.clear();
    next.stop.clear();
    next.save.clear();
    next.tell.clear();
    next.recorded.clear();
    next.fenced.clear();
    for (const protocol::StopOrder& order : answer.stop) next.keep.push_back(order.attempt);
    return next;
}

// Returns whether the attempt must save before it stops: the job trains and was not cancelled, and
// no member has ended without success.
bool wants_checkpoint(const core::Job& job) {
    return job.spec.trains() && !job.cancel_requested && !job.attempt->outcome;
}

// Returns the number of the last request before the first unanswered request of the current
// attempt. Returns the number of the newest request if all are answered. Returns 0 if there is no
// such request, or if `token` belongs to another attempt.
std::uint64_t answered(const core::Job& job, const Token& token) {
    if (!job.attempt || job.attempt->token != token) return 0;
    std::uint64_t newest = 0;
    for (const core::MadeRequest& made : job.attempt->requests) {
        if (!made.answer) break;
        newest = made.request.number;
    }
    return newest;
}

}  // namespace

std::map<WorkerId, protocol::Answer> orders(const core::State& state,
                                            std::span<const core::Action> owed,
                                            const std::string& cluster) {
    std::map<WorkerId, protocol::Answer> all;
    for (const core::Action& action : owed) {
        if (const auto* start = std::get_if<core::StartMember>(&action))
            all[start->worker].start.push_back(start_order(state, *start, cluster));
        if (const auto* keep = std::get_if<core::KeepMember>(&action)) {
            all[keep->worker].keep.push_back(keep->attempt);
            const core::Attempt& attempt = *state.jobs.at(keep->attempt.job).attempt;
            if (attempt.asked > attempt.saved)
                all[keep->worker].save.push_back({keep->attempt, attempt.asked});
            for (const core::MadeRequest& made : attempt.requests)
                if (!made.answer) all[keep->worker].tell.push_back({keep->attempt, made.request});
        }
        if (const auto* stop = std::get_if<core::StopMember>(&action)) {
            const core::Job& job = state.jobs.at(stop->attempt.job);
            const bool saves = wants_checkpoint(job);
            const auto grace =
                std::chrono::ceil<std::chrono::seconds>(core::save_margin(job.save_ms));
            protocol::StopOrder order;
            order.attempt = stop->attempt;
            order.reason = brief(job.attempt->reason);
            order.checkpoint = saves;
            order.grace_seconds = saves ? grace.count() : 0;
            all[stop->worker].stop.push_back(std::move(order));
        }
    }
    return all;
}

void add_verdicts(const core::State& state, WorkerId worker,
                  std::span<const protocol::RunningAttempt> running, protocol::Answer& answer) {
    for (const protocol::RunningAttempt& entry : running) {
        const auto job = state.jobs.find(entry.attempt.job);
        const bool known = job != state.jobs.end();
        const bool current = core::is_current(state, worker, entry.attempt);
        if (!current && entry.phase != protocol::Phase::Ended)
            answer.fenced.push_back(entry.attempt);
        if (!known) continue;
        protocol::Recorded recorded{entry.attempt, {}, !job->second.exported.empty()};
        for (const core::Checkpoint& checkpoint : job->second.checkpoints) {
            if (checkpoint.token == entry.attempt.token) recorded.steps.push_back(checkpoint.step);
        }
        const auto& exports = job->second.exports;
        if (!exports.empty()) recorded.export_step = exports.back().step;
        recorded.answered = answered(job->second, entry.attempt.token);
        const bool news = !recorded.steps.empty() || recorded.exported || recorded.answered > 0;
        if (news || recorded.export_step > 0) answer.recorded.push_back(recorded);
    }
}

std::vector<std::string> frames(protocol::Answer answer, std::size_t bytes_max) {
    std::string whole = protocol::encode(answer);
    if (whole.size() <= bytes_max || answer.start.empty()) return {std::move(whole)};
    std::vector<protocol::StartOrder> orders = std::exchange(answer.start, {});
    for (const protocol::StartOrder& order : orders) answer.keep.push_back(order.attempt);
    const protocol::Answer after = next_frame(answer);
    std::vector<std::string> frames;
    std::size_t bytes = protocol::encode(answer).size();
    for (protocol::StartOrder& order : orders) {
        std::size_t more = bytes_of(order);
        if (more + protocol::encode(after).size() > bytes_max) {
            order.refused = fmt::format(
                "the attempt's start order has {} bytes; a worker accepts at most {}; put a large "
                "script or argument into a file",
                more, bytes_max);
            order.document.clear();
            order.checkpoints.clear();
            order.secrets.clear();
            more = bytes_of(order);
        }
        if (bytes + more > bytes_max) {
            frames.push_back(protocol::encode(answer));
            answer = after;
            bytes = protocol::encode(answer).size();
        }
        answer.start.push_back(std::move(order));
        bytes += more;
    }
    frames.push_back(protocol::encode(answer));
    return frames;
}

}  // namespace roll::dispatch
