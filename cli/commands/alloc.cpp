// `rollctl alloc`: manages allocation queues, from which rolld requests Slurm allocations.
#include "cli/commands/alloc.hpp"

#include <array>
#include <cmath>
#include <cstdint>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/job/options.hpp"
#include "cli/text/render.hpp"
#include "common/number.hpp"
#include "common/protocol/allocation_operations.hpp"
#include "common/spec/job/pilot_queue.hpp"
#include "common/spec/schema/units.hpp"

namespace roll::cli {
namespace {

std::string duration_field(const Json& object, const std::string& key) {
    return duration_text(object.value(key, 0.0));
}

std::string limits_text(const Json& queue) {
    std::string text;
    const auto add = [&](const char* key, const char* unit) {
        const int limit = queue.value(key, 0);
        if (limit > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", limit, unit);
    };
    add("max_jobs", "jobs");
    add("max_nodes", "nodes");
    add("max_gpu_hours", "GPU-hours");
    return text;
}

std::string queues_text(const Json& queues, bool color) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& queue : queues) {
        const std::string shape =
            fmt::format("{} x {} slot{}, {} GPU{}", field_text(queue, "nodes"),
                        field_text(queue, "slots"), field_text(queue, "slots") == "1" ? "" : "s",
                        field_text(queue, "gpus"), field_text(queue, "gpus") == "1" ? "" : "s");
        rows.push_back({field_text(queue, "name"), field_text(queue, "state"), shape,
                        duration_field(queue, "time_s"), field_text(queue, "partition"),
                        limits_text(queue), field_text(queue, "waiting"),
                        field_text(queue, "granted"), field_text(queue, "reason")});
    }
    return table({{"QUEUE"},
                  {"STATE"},
                  {"NODES"},
                  {"TIME", true},
                  {"PARTITION"},
                  {"AT MOST"},
                  {"WAITING", true},
                  {"GRANTED", true},
                  {"REASON"}},
                 rows, color);
}

std::string allocations_text(const Json& allocations, bool color) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& one : allocations) {
        rows.push_back({field_text(one, "id"), field_text(one, "queue"), field_text(one, "state"),
                        field_text(one, "slurm_job"), field_text(one, "slurm_state"),
                        field_text(one, "workers"), field_text(one, "ends_at"),
                        field_text(one, "reason")});
    }
    return table({{"ALLOCATION", true},
                  {"QUEUE"},
                  {"STATE"},
                  {"SLURM JOB", true},
                  {"SLURM SAYS"},
                  {"WORKERS", true},
                  {"ENDS"},
                  {"REASON"}},
                 rows, color);
}

Result<Json> queue_of(const AllocOptions& options) {
    ROLL_TRY(const auto time, duration_of("--time", options.time));
    ROLL_TRY(const auto idle, duration_of("--idle", options.idle));
    ROLL_TRY(const auto handover, duration_of("--handover", options.handover));
    std::uint64_t memory = 0;
    if (!options.memory.empty()) {
        const auto size = spec::parse_size(options.memory);
        if (!size) return fail(size.error().code, "--memory " + size.error().message);
        memory = *size;
    }
    spec::PilotQueue queue{
        .name = options.name,
        .partition = options.partition,
        .account = options.account,
        .qos = options.qos,
        .constraint = options.constraint,
        .nodes = options.nodes,
        .slots = options.slots.value_or(std::max(1, options.gpus)),
        .gpus = options.gpus,
        .memory = static_cast<std::int64_t>(memory),
        .time = time,
        .sbatch_args = options.sbatch_args,
        .setup = options.setup,
        .max_nodes = options.max_nodes,
        .max_jobs = options.max_jobs,
        .max_gpu_hours = options.max_gpu_hours,
        .backlog = options.backlog,
        .min_percent = static_cast<int>(std::lround(100 * options.min_utilization)),
        .idle = idle,
        .handover = handover};
    ROLL_TRY_VOID(spec::pilot_queue_from_json(spec::to_json(queue)));
    return parse_json(spec::to_json(queue));
}

// Returns the text of a dry run: the sbatch command line as a shell comment, followed by the script
// that sbatch reads.
std::string dry_run_text(const Json& reply) {
    std::string text = "#";
    for (const Json& word : reply.value("command", Json::array()))
        text += " " + (word.is_string() ? word.get<std::string>() : "");
    return text + "\n" + reply.value("script", "");
}

}  // namespace

void add_alloc_options(CLI::App& sub, AllocOptions& a) {
    sub.add_option("NAME", a.name, "Name of the new queue")->required();
    sub.add_option("--time", a.time, "Time limit per allocation: 90m, 12h, 1-12:00:00")->required();
    sub.add_option("--nodes", a.nodes, "Nodes per allocation [1]");
    sub.add_option("--gpus", a.gpus, "GPUs per node [0]");
    sub.add_option("--slots", a.slots, "CPU slots per node [1 per GPU, at least 1]");
    sub.add_option("--memory", a.memory,
                   "Memory per node, passed to sbatch --mem, e.g. 64GiB; jobs with "
                   "resources.memory need a queue with this option [Slurm's default]");
    sub.add_option("--partition", a.partition, "Slurm partition");
    sub.add_option("--account", a.account, "Slurm account");
    sub.add_option("--qos", a.qos, "Slurm QOS");
    sub.add_option("--constraint", a.constraint, "Slurm constraint (node features)");
    sub.add_option("--sbatch-arg", a.sbatch_args,
                   "Argument to pass to sbatch, e.g. --sbatch-arg=--exclusive; repeatable")
        ->allow_extra_args(false);
    sub.add_option("--setup", a.setup,
                   "Shell line to run before the worker, e.g. 'module load x'; repeatable")
        ->allow_extra_args(false);
    sub.add_option("--max-jobs", a.max_jobs,
                   "Maximum number of allocations at once [10]; 0 means no limit");
    sub.add_option("--max-nodes", a.max_nodes, "Maximum number of nodes at once [no limit]");
    sub.add_option("--max-gpu-hours", a.max_gpu_hours,
                   "Maximum GPU-hours of all allocations of the queue [no limit]");
    sub.add_option("--backlog", a.backlog,
                   "Maximum number of allocations that wait in Slurm's queue [4]");
    sub.add_option("--min-utilization", a.min_utilization,
                   "Request an allocation only if waiting jobs would use at least this share of "
                   "it, from 0 to 1 [0]")
        ->check(CLI::Range(0.0, 1.0));
    sub.add_option("--idle", a.idle, "Give an allocation back after this time without jobs [5m]");
    sub.add_option(
        "--handover", a.handover,
        "Tell jobs to save a checkpoint and end when the allocation has only this time left [2m]");
    sub.add_flag("--dry-run", a.dry_run, "Print the sbatch command and script; add no queue");
}

Result<int> run_alloc_add(const Context& context, const AllocOptions& options) {
    ROLL_TRY(const Json queue, queue_of(options));
    if (options.dry_run) {
        ROLL_TRY(Daemon daemon, Daemon::connect(context));
        ROLL_TRY(const Json reply, daemon.ask(protocol::AllocDryRunArgs{.spec = queue}));
        context.json ? print_json(reply) : print(dry_run_text(reply));
        return 0;
    }
    ROLL_TRY(const Json reply, change(context, protocol::AllocAddArgs{queue}));
    if (context.json) {
        print_json(reply);
    } else {
        print(options.name + "\n");
        say("  next: submit a job; to see the sbatch command: rollctl alloc dry-run " +
            options.name);
    }
    return 0;
}

Result<int> run_alloc_list(const Context& context, const std::string& shown) {
    static const Fields kFields = {
        "an allocation",
        "allocations",
        {"id", "queue", "state", "slurm_job", "slurm_state", "ordered_at", "granted_at", "ends_at",
         "workers", "nodes", "reason"}};
    if (shown == "help") return print_format_help(kFields);
    ROLL_TRY(const Format format, parse_format(shown, kFields, formats_file()));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::AllocListArgs{}));
    const Json queues = reply.value("queues", Json::array());
    if (context.json) {
        print_json(reply);
    } else if (context.parsable) {
        for (const Json& queue : queues) print(field_text(queue, "name") + "\n");
    } else {
        const Json allocations = reply.value("allocations", Json::array());
        if (!format.fields.empty()) {
            print(rows_text(format, allocations, context.color, deep_field_text));
            return 0;
        }
        print(queues_text(queues, context.color));
        if (!allocations.empty()) print("\n" + allocations_text(allocations, context.color));
        const std::string trouble = reply.value("slurm_trouble", "");
        if (!trouble.empty()) say("Slurm: " + trouble);
    }
    return 0;
}

const char* AllocVerb::argument_help() const {
    return std::string_view(argument) == "QUEUE" ? "Name of the queue"
                                                 : "Number of the allocation in `alloc list`";
}

std::span<const AllocVerb> alloc_verbs() {
    static constexpr std::array kVerbs = {
        AllocVerb{"pause", "QUEUE", "Stop requesting allocations for a queue"},
        AllocVerb{"resume", "QUEUE",
                  "Request allocations for a queue again; clear its failure count"},
        AllocVerb{"remove", "QUEUE", "Cancel a queue's allocations and delete the queue"},
        AllocVerb{"dry-run", "QUEUE",
                  "Print the sbatch command and script for a queue's next allocation"},
        AllocVerb{"close", "ALLOCATION",
                  "Start no more jobs in an allocation; cancel it when its jobs have ended"},
        AllocVerb{"cancel", "ALLOCATION", "Cancel an allocation; its jobs stop and wait again"}};
    return kVerbs;
}

static Result<Json> steer(const Context& context, const std::string& verb,
                          const std::string& name) {
    if (verb == "pause") return change(context, protocol::AllocPauseArgs{name});
    if (verb == "resume") return change(context, protocol::AllocResumeArgs{name});
    if (verb == "remove") return change(context, protocol::AllocRemoveArgs{name});
    if (verb == "close" || verb == "cancel") {
        const auto id = parse_number<std::uint64_t>(name);
        if (!id || *id == 0)
            return fail(
                ErrorCode::InvalidArgument,
                fmt::format("the allocation is \"{}\"; allowed: a number of at least 1", name),
                "rollctl alloc list");
        if (verb == "close") return change(context, protocol::AllocCloseArgs{*id});
        return change(context, protocol::AllocCancelArgs{*id});
    }
    return change(context, protocol::AllocDryRunArgs{.queue = name});
}

Result<int> run_alloc_steer(const Context& context, const std::string& verb,
                            const std::string& name) {
    const bool dry = verb == "dry-run";
    ROLL_TRY(const Json reply, steer(context, verb, name));
    if (context.json)
        print_json(reply);
    else
        print(dry ? dry_run_text(reply) : name + "\n");
    return 0;
}

}  // namespace roll::cli
