#include "common/spec/job/pilot_queue.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "common/json.hpp"
#include "common/spec/job/node_sizes.hpp"

namespace roll::spec {
namespace {

bool is_name(const std::string& text) {
    const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
    return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, fits);
}

// Returns whether the text can be one argument of sbatch or one line of its script.
bool is_line(const std::string& text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < ' '; });
}

constexpr std::int64_t kNodeMemoryLeast = 64 << 20;

class Problems {
  public:
    void unless(bool holds, const std::string& what) {
        if (!holds) text_ += (text_.empty() ? "" : "; ") + what;
    }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

void check_sizes(const PilotQueue& q, Problems& problems) {
    const auto number = [](auto value) { return std::to_string(value); };
    problems.unless(q.nodes >= 1 && q.nodes <= 100'000,
                    "nodes is " + number(q.nodes) + "; allowed: 1 to 100000");
    problems.unless(q.slots >= 1 && q.slots <= 4096,
                    "slots is " + number(q.slots) + "; allowed: 1 to 4096");
    problems.unless(q.gpus >= 0 && q.gpus <= 64,
                    "gpus is " + number(q.gpus) + "; allowed: 0 to 64");
    problems.unless(q.memory == 0 || (q.memory >= kNodeMemoryLeast && q.memory <= kMemoryMax),
                    "memory is " + number(q.memory) +
                        " bytes; allowed: 64 MiB to 1 PiB, or 0 for Slurm's default");
    problems.unless(q.time.count() >= 60,
                    "time is " + number(q.time.count()) + " s; allowed: at least 60 s");
    problems.unless(q.idle.count() >= 0, "idle is negative; allowed: at least 0 s");
    problems.unless(q.handover.count() >= 0, "handover is negative; allowed: at least 0 s");
    const bool limits = std::min({q.max_nodes, q.max_jobs, q.max_gpu_hours}) >= 0 && q.backlog >= 1;
    problems.unless(limits,
                    "max_jobs, max_nodes or max_gpu_hours is negative, or backlog is less than 1");
    problems.unless(q.min_percent >= 0 && q.min_percent <= 100,
                    "min_utilization is " + number(q.min_percent) + " %; allowed: 0 to 1");
    problems.unless(
        q.max_nodes == 0 || q.max_nodes >= q.nodes,
        "max_nodes is " + number(q.max_nodes) + ", but one allocation needs " + number(q.nodes));
}

void check_texts(const PilotQueue& q, Problems& problems) {
    problems.unless(is_name(q.name),
                    "name is '" + q.name + "'; allowed: 1 to 32 letters, digits, '-' and '_'");
    for (const std::string& text : {q.partition, q.account, q.qos, q.constraint})
        problems.unless(is_line(text), "'" + text + "' contains control characters");
    for (const auto* list : {&q.sbatch_args, &q.setup}) {
        for (const std::string& text : *list)
            problems.unless(is_line(text), "'" + text + "' contains control characters");
    }
    for (const std::string& text : q.sbatch_args) {
        problems.unless(
            text.starts_with("-"),
            "sbatch argument '" + text + "' does not begin with '-'; write --option=value");
    }
}

}  // namespace

std::string to_json(const PilotQueue& queue) {
    Json json{{"name", queue.name},
              {"partition", queue.partition},
              {"account", queue.account},
              {"qos", queue.qos},
              {"constraint", queue.constraint},
              {"nodes", queue.nodes},
              {"slots", queue.slots},
              {"gpus", queue.gpus},
              {"time_s", queue.time.count()},
              {"sbatch_args", queue.sbatch_args},
              {"setup", queue.setup},
              {"max_nodes", queue.max_nodes},
              {"max_jobs", queue.max_jobs},
              {"max_gpu_hours", queue.max_gpu_hours},
              {"backlog", queue.backlog},
              {"min_utilization", queue.min_percent / 100.0},
              {"idle_s", queue.idle.count()},
              {"handover_s", queue.handover.count()}};
    if (queue.memory > 0) json["memory"] = queue.memory;
    return dump(json);
}

Result<PilotQueue> pilot_queue_from_json(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader r(json, "queue");
    PilotQueue q;
    const auto seconds = [&](const char* key, std::chrono::seconds fallback) {
        return std::chrono::seconds(r.get_or<std::int64_t>(key, fallback.count()));
    };
    q.name = r.get<std::string>("name");
    q.partition = r.get_or("partition", q.partition);
    q.account = r.get_or("account", q.account);
    q.qos = r.get_or("qos", q.qos);
    q.constraint = r.get_or("constraint", q.constraint);
    q.nodes = r.get_or("nodes", q.nodes);
    q.gpus = r.get_or("gpus", q.gpus);
    q.slots = r.get_or("slots", std::max(1, q.gpus));
    q.memory = r.get_or("memory", q.memory);
    q.time = std::chrono::seconds(r.get<std::int64_t>("time_s"));
    q.sbatch_args = r.get_or("sbatch_args", q.sbatch_args);
    q.setup = r.get_or("setup", q.setup);
    q.max_nodes = r.get_or("max_nodes", q.max_nodes);
    q.max_jobs = r.get_or("max_jobs", q.max_jobs);
    q.max_gpu_hours = r.get_or("max_gpu_hours", q.max_gpu_hours);
    q.backlog = r.get_or("backlog", q.backlog);
    const double least = r.get_or("min_utilization", 0.0);
    q.min_percent = static_cast<int>(std::lround(100 * std::clamp(least, -1.0, 2.0)));
    q.idle = seconds("idle_s", q.idle);
    q.handover = seconds("handover_s", q.handover);
    ROLL_TRY_VOID(r.finish());
    Problems problems;
    check_texts(q, problems);
    check_sizes(q, problems);
    if (!problems.text().empty()) return fail(ErrorCode::InvalidArgument, problems.text());
    return q;
}

}  // namespace roll::spec
