#include "daemon/http/exposition.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace roll::http {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string escaped(const std::string& value) {
    std::string text;
    for (const char c : value) {
        if (c == '\\' || c == '"') text += '\\';
        text += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return text;
}

// Collects metrics as text. Call family() once for each metric, and then sample() for each of the
// metric's samples.
class Exposition {
  public:
    void family(const char* name, const char* type, const char* help) {
        name_ = name;
        text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    }
    // Adds a sample if the value is a number or a boolean; a value that is missing adds none.
    void sample(const Json& value, const Labels& labels = {}) {
        if (!value.is_number() && !value.is_boolean()) return;
        text_ += name_;
        for (std::size_t i = 0; i < labels.size(); ++i)
            text_ += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first,
                                 escaped(labels[i].second));
        const double number =
            value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>();
        text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", number);
    }
    // Adds a histogram {count, seconds, buckets: [{le, count}]}; adds nothing if it is missing.
    void histogram(const char* name, const char* help, const Json& value) {
        if (!value.is_object()) return;
        family(name, "histogram", help);
        name_ = fmt::format("{}_bucket", name);
        const Json count = value.value("count", Json());
        for (const Json& bucket : value.value("buckets", Json::array()))
            sample(bucket.value("count", Json()),
                   {{"le", fmt::format("{}", bucket.value("le", 0.0))}});
        sample(count, {{"le", "+Inf"}});
        name_ = fmt::format("{}_sum", name);
        sample(value.value("seconds", Json()));
        name_ = fmt::format("{}_count", name);
        sample(count);
    }
    void single(const char* name, const char* type, const char* help, const Json& value) {
        family(name, type, help);
        sample(value);
    }
    std::string take() { return std::move(text_); }

  private:
    std::string name_;
    std::string text_;
};

Json field(const Json& object, const char* key) {
    return object.is_object() ? object.value(key, Json()) : Json();
}

// Converts a number of milliseconds to seconds.
Json seconds(const Json& milliseconds) {
    return milliseconds.is_number() ? Json(milliseconds.get<double>() / 1e3) : Json();
}

// A family with one sample for each user or job. `key` is the field with the value.
struct Family {
    const char* name;
    const char* help;
    const char* key;
};

void add_jobs(Exposition& out, const Json& totals) {
    const Json jobs = field(totals, "jobs");
    out.family("roll_jobs", "gauge", "Jobs in the ledger by state.");
    for (const char* state : {"queued", "running", "done", "failed", "cancelled"})
        out.sample(field(jobs, state), {{"state", state}});
    out.single("roll_jobs_held", "gauge", "Queued jobs that a user holds.", field(jobs, "held"));
    out.single("roll_jobs_submitted_total", "counter", "Jobs submitted since the ledger was made.",
               field(totals, "submitted"));
    out.single(
        "roll_queue_longest_wait_seconds", "gauge",
        "Longest time for which a queued job has been ready and has waited only for resources.",
        field(totals, "longest_wait_seconds"));
    out.single("roll_training_ettr", "gauge",
               "Effective training time ratio of the training jobs that have not ended.",
               field(totals, "ettr"));
}

void add_users(Exposition& out, const Json& users) {
    static constexpr Family kFamilies[] = {
        {"roll_user_jobs_queued", "Queued jobs of each user.", "queued"},
        {"roll_user_jobs_running", "Running jobs of each user.", "running"},
        {"roll_user_slots", "CPU slots in use, per user.", "slots"},
        {"roll_user_gpus", "GPUs in use, per user.", "gpus"}};
    if (!users.is_array()) return;
    for (const Family& family : kFamilies) {
        out.family(family.name, "gauge", family.help);
        for (const Json& user : users)
            out.sample(field(user, family.key), {{"user", user.value("user", "")}});
    }
}

void add_machines(Exposition& out, const Json& totals) {
    const Json nodes = field(totals, "nodes"), all = field(totals, "capacity");
    out.single("roll_nodes", "gauge", "Connected nodes.", field(nodes, "connected"));
    out.single("roll_nodes_silent", "gauge",
               "Connected nodes from which no heartbeat arrived lately.", field(nodes, "silent"));
    out.single("roll_nodes_draining", "gauge", "Connected nodes that get no new jobs.",
               field(nodes, "draining"));
    out.single("roll_nodes_excluded", "gauge", "Nodes that are excluded after faults.",
               field(nodes, "excluded"));
    out.single("roll_slots", "gauge", "CPU slots of the connected nodes.", field(all, "slots"));
    out.single("roll_slots_free", "gauge", "CPU slots without a job.", field(all, "slots_free"));
    out.single("roll_gpus", "gauge", "GPUs of the connected nodes.", field(all, "gpus"));
    out.single("roll_gpus_free", "gauge", "GPUs without a job.", field(all, "gpus_free"));
    out.single("roll_dispatch_stopped", "gauge",
               "1 if an operator has stopped the start of all jobs, else 0.",
               field(totals, "stopped"));
    out.family("roll_allocations", "gauge", "Slurm allocations by state.");
    for (const char* state : {"ordered", "pending", "granted"})
        out.sample(field(field(totals, "allocations"), state), {{"state", state}});
}

void add_ledger(Exposition& out, const Json& ledger) {
    out.single("roll_ledger_bytes", "gauge", "Size of the ledger.", field(ledger, "bytes"));
    out.single("roll_ledger_wal_bytes", "gauge", "Size of the ledger's write-ahead log.",
               field(ledger, "wal_bytes"));
    out.single("roll_ledger_volume_free_bytes", "gauge",
               "Free space for rolld on the ledger's volume.", field(ledger, "free_bytes"));
}

void add_daemon(Exposition& out, const Json& version) {
    out.single("roll_incarnation", "gauge",
               "Number of times that rolld has started with this ledger.",
               field(version, "incarnation"));
    const Json turns = field(version, "turns"), commits = field(version, "commits");
    out.single("roll_turns_total", "counter", "Iterations of rolld's main loop since its start.",
               field(turns, "count"));
    out.single("roll_turn_p99_seconds", "gauge",
               "99th percentile of the duration of an iteration of rolld's main loop, without the "
               "write to the ledger.",
               seconds(field(turns, "p99_ms")));
    out.single(
        "roll_turn_longest_seconds", "gauge",
        "Longest duration of an iteration of rolld's main loop, without the write to the ledger.",
        seconds(field(turns, "longest_ms")));
    out.single("roll_commits_total", "counter", "Commits to the ledger since rolld's start.",
               field(commits, "count"));
    out.single("roll_commit_p99_seconds", "gauge", "99th percentile of a commit's duration.",
               seconds(field(commits, "p99_ms")));
    out.single("roll_commit_longest_seconds", "gauge", "Longest commit to the ledger.",
               seconds(field(commits, "longest_ms")));
    out.single("roll_commit_recent_longest_seconds", "gauge",
               "Longest of the last 100 commits to the ledger.",
               seconds(field(commits, "recent_longest_ms")));
    out.single("roll_commit_seconds_total", "counter",
               "Sum of the durations of all commits to the ledger since rolld's start.",
               field(commits, "seconds"));
    add_ledger(out, field(version, "ledger"));
    out.histogram("roll_dispatch_seconds",
                  "Time from the moment a job could run until rolld sent its start order.",
                  field(version, "dispatches"));
    out.single("roll_fenced_total", "counter",
               "Orders to a worker to kill an attempt that is not its job's current attempt.",
               field(version, "fenced"));
}

void add_running(Exposition& out, const Json& running) {
    static constexpr Family kFamilies[] = {
        {"roll_job_step", "Last step that the job reported.", "step"},
        {"roll_job_steps", "Number of steps of the whole job.", "steps"},
        {"roll_job_loss", "Loss of the last reported step.", "loss"},
        {"roll_job_tokens_per_second", "Trained tokens per second.", "tokens_per_second"},
        {"roll_job_gpu_percent", "Average load of the GPUs of the job's first node.",
         "gpu_percent"},
        {"roll_job_memory_bytes", "Memory of the job's processes on all its nodes.", "memory"}};
    const Json jobs = field(running, "jobs");
    if (!jobs.is_array()) return;
    const auto sample = [&](const Json& job, const Json& value) {
        out.sample(value, {{"job", std::to_string(job.value("id", std::uint64_t{0}))},
                           {"name", job.value("name", "")},
                           {"user", job.value("user", "")}});
    };
    for (const Family& family : kFamilies) {
        out.family(family.name, "gauge", family.help);
        for (const Json& job : jobs) sample(job, field(field(job, "progress"), family.key));
    }
    out.family("roll_job_ettr", "gauge",
               "Effective training time ratio of the training job since its first start.");
    for (const Json& job : jobs) sample(job, field(job, "ettr"));
}

}  // namespace

std::string exposition(const Json& totals, const Json& version, const Json& running) {
    Exposition out;
    out.single("roll_up", "gauge", "1 if rolld answers.", 1);
    add_jobs(out, totals);
    add_users(out, field(totals, "users"));
    add_machines(out, totals);
    add_daemon(out, version);
    add_running(out, running);
    return out.take();
}

std::string exposition_of_silence() {
    Exposition out;
    out.single("roll_up", "gauge", "1 if rolld answers.", 0);
    return out.take();
}

}  // namespace roll::http
