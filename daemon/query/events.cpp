#include <array>

#include <fmt/format.h>

#include "daemon/query/query.hpp"

namespace roll::query {
namespace {

std::string text_of(const Json& body, const char* field) {
    const auto found = body.find(field);
    if (found == body.end()) return {};
    return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string with_reason(std::string sentence, const Json& body) {
    const std::string reason = text_of(body, "reason");
    return reason.empty() ? sentence : sentence + ": " + reason;
}

std::string attempt_of(const Json& body) {
    const auto found = body.find("attempt");
    return found == body.end() ? "" : "attempt " + text_of(*found, "token");
}

// Returns " by ann" for an event that names the user ann; empty if the event names no user.
std::string by_whom(const Json& body) {
    const std::string by = text_of(body, "by");
    return by.empty() ? "" : " by " + by;
}

// Returns "node n1". If the event does not name the node, returns "worker 5".
std::string node_of(const Json& body) {
    const std::string node = text_of(body, "node");
    return node.empty() ? "worker " + text_of(body, "worker") : "node " + node;
}

std::string describe_attempt(const std::string& kind, const Json& body) {
    const std::string attempt = attempt_of(body);
    if (kind == "attempt_placed") return attempt + " placed";
    if (kind == "attempt_fenced")
        return fmt::format(
            "rolld told node {} to kill {}, which is not the job's current attempt "
            "(FENCED)",
            text_of(body, "node"), attempt);
    if (kind == "member_up")
        return attempt + ": its processes on " + node_of(body) + " have started";
    if (kind == "attempt_started") return attempt + " started";
    if (kind == "attempt_stopping") return with_reason(attempt + " stopping", body);
    if (kind == "member_ended") {
        return with_reason(
            fmt::format("{}: its processes on {} ended: {} (exit code {})", attempt, node_of(body),
                        text_of(body, "outcome"), text_of(body, "exit_code")),
            body);
    }
    if (kind == "attempt_ended") {
        return with_reason(fmt::format("{} ended: {} (exit code {})", attempt,
                                       text_of(body, "outcome"), text_of(body, "exit_code")),
                           body);
    }
    if (kind == "checkpoint_asked")
        return attempt + " was asked to save a checkpoint" + by_whom(body);
    if (kind == "training_asked")
        return fmt::format("{} was asked: {}{}{}", attempt, text_of(body, "what"),
                           text_of(body, "value") == "0" ? "" : " " + text_of(body, "value"),
                           by_whom(body));
    if (kind == "training_answered")
        return fmt::format("training request {} done at step {}: {}", text_of(body, "number"),
                           text_of(body, "step"), text_of(body, "text"));
    if (kind == "checkpoint_recorded")
        return fmt::format("checkpoint of step {} recorded: {}", text_of(body, "step"),
                           text_of(body, "directory"));
    if (kind == "export_recorded" && body.value("step", 0) > 0)
        return fmt::format("export of step {} recorded: {}", text_of(body, "step"),
                           text_of(body, "directory"));
    if (kind == "export_recorded") return "export recorded: " + text_of(body, "directory");
    return kind;
}

std::string describe_allocation(const std::string& kind, const Json& body) {
    const std::string queue = "allocation queue " + text_of(body, "queue");
    if (kind == "queue_added")
        return "allocation queue added" + by_whom(body) + ": " + text_of(body.at("queue"), "name");
    if (kind == "queue_paused")
        return with_reason(
            queue + (text_of(body, "paused") == "true" ? " paused" : " resumed") + by_whom(body),
            body);
    if (kind == "queue_removing") return queue + " is being removed" + by_whom(body);
    if (kind == "queue_removed") return queue + " removed";
    const std::string allocation = "allocation " + text_of(body, "allocation");
    if (kind == "allocation_ordered") return allocation + " requested for " + queue;
    if (kind == "allocation_accepted")
        return allocation + " is Slurm's job " + text_of(body, "slurm_job");
    if (kind == "allocation_granted") return allocation + " granted";
    if (kind == "allocation_returned") return allocation + " was queued again by Slurm";
    if (kind == "allocation_closed")
        return allocation + " closed" + by_whom(body) + ": no more jobs start in it";
    if (kind == "allocation_releasing") return with_reason(allocation + " is being released", body);
    if (kind == "allocation_ended") return with_reason(allocation + " ended", body);
    if (kind == "pilot_joined") return node_of(body) + " belongs to " + allocation;
    return kind;
}

std::string describe(const std::string& kind, const Json& body) {
    if (kind == "incarnation_raised")
        return "rolld started, incarnation " + text_of(body, "incarnation");
    if (kind == "job_submitted")
        return fmt::format("submitted by {}: {} ({})", text_of(body, "user"),
                           text_of(body.at("spec"), "name"), text_of(body.at("spec"), "kind"));
    if (kind == "export_queued") return "is the automatic export of job " + text_of(body, "parent");
    if (kind == "job_held")
        return (text_of(body, "held") == "true" ? "held" : "released") + by_whom(body);
    if (kind == "job_closed") return "closed" + by_whom(body) + ": no more jobs can be added";
    if (kind == "job_priority_changed")
        return "priority set to " + text_of(body, "priority") + by_whom(body);
    if (kind == "job_cancel_requested")
        return with_reason("cancel requested" + by_whom(body), body);
    if (kind == "job_requeued") return "returned to the queue";
    if (kind == "policy_set") return "rolld.yaml was read again and has changed";
    if (kind == "secrets_known")
        return fmt::format("secrets were set or removed; number of stored secrets: {}",
                           body.at("names").size());
    if (kind == "use_carried")
        return "rolld recorded the slot and GPU use of user " + text_of(body, "user") +
               ", including the use of jobs that rolld no longer stores";
    if (kind == "job_due") return "is due: its begin time or back-off has passed";
    if (kind == "job_begin_changed") return "begin time changed" + by_whom(body);
    if (kind == "job_ended")
        return with_reason(
            fmt::format("{} (exit code {})", text_of(body, "phase"), text_of(body, "exit_code")),
            body);
    if (kind == "checkpoint_pruned")
        return "checkpoint of step " + text_of(body, "step") + " deleted by the retention rules";
    if (kind == "worker_joined") return "worker joined: " + text_of(body, "node");
    if (kind == "worker_drained")
        return node_of(body) + (text_of(body, "draining") == "true" ? " drained" : " undrained") +
               by_whom(body);
    if (kind == "machine_excluded")
        return with_reason("no new jobs on " + text_of(body, "machine"), body);
    if (kind == "machine_forgiven")
        return text_of(body, "machine") + " is used again" + by_whom(body);
    if (kind == "worker_quiet")
        return node_of(body) +
               (text_of(body, "quiet") == "true" ? " is silent" : " sends heartbeats again");
    if (kind == "dispatch_stopped")
        return text_of(body, "stopped") == "false"
                   ? "jobs may start again" + by_whom(body)
                   : "no jobs may start" + by_whom(body) + ": " + text_of(body, "why");
    if (kind == "adopting_set")
        return text_of(body, "adopting") == "true" ? "rolld adopts the jobs of an earlier rolld "
                                                     "and starts no jobs for at least 35 s"
                                                   : "rolld starts jobs again";
    if (kind == "clock_stepped")
        return fmt::format("the system clock jumped by {} ms (negative: backwards)",
                           text_of(body, "by_ms"));
    if (kind == "worker_lost") return with_reason("lost the worker of " + node_of(body), body);
    static constexpr std::array kOfAllocations = {"queue_", "allocation_", "pilot_"};
    for (const char* prefix : kOfAllocations)
        if (kind.starts_with(prefix)) return describe_allocation(kind, body);
    return describe_attempt(kind, body);
}

// Adds the node of the worker that an event names, as far as rolld still knows the worker.
void add_node(const core::State& state, Json& body) {
    if (!body.contains("worker") || body.contains("node")) return;
    const auto worker = state.workers.find(WorkerId{body.at("worker").get<std::uint64_t>()});
    if (worker != state.workers.end()) body["node"] = worker->second.node;
}

Json job_of(const Json& body) {
    if (body.contains("job")) return body.at("job");
    if (body.contains("attempt")) return body.at("attempt").at("job");
    return nullptr;
}

}  // namespace

Json events(const core::State& state, std::span<const core::Row> rows, std::int64_t since) {
    Json list = Json::array();
    std::int64_t next = since;
    for (const core::Row& row : rows) {
        Json body = Json::parse(row.body, nullptr, false);
        add_node(state, body);
        const std::string text = describe(row.kind, body);
        const Json job = job_of(body);
        if (body.contains("spec"))
            body.erase("spec");  // leave out the spec: it is large, and `show` displays it
        list.push_back({{"seq", row.seq},
                        {"at", to_iso8601(row.at)},
                        {"kind", row.kind},
                        {"job", job},
                        {"text", text},
                        {"data", std::move(body)}});
        next = row.seq;
    }
    return {{"schema", "roll.events/1"}, {"events", std::move(list)}, {"next", next}};
}

}  // namespace roll::query
