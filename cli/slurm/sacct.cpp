#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/slurm/arguments.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/programs.hpp"
#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

constexpr std::array kSacctFlags = {
    SlurmFlag{'n', "noheader"},
    SlurmFlag{'P', "parsable2"},
    SlurmFlag{'p', "parsable"},
    SlurmFlag{'j', "jobs", true},
    SlurmFlag{'u', "user", true},
    SlurmFlag{'s', "state", true},
    SlurmFlag{'S', "starttime", true},
    SlurmFlag{'E', "endtime", true},
    SlurmFlag{'o', "format", true},
    SlurmFlag{0, "name", true},
    SlurmFlag{'a', "allusers"},
    SlurmFlag{'X', "allocations", false, true},
    SlurmFlag{'D', "duplicates", false, true},
    SlurmFlag{'r', "partition", true, true},
};
constexpr const char* kSacctUsual = "jobid,jobname,partition,account,alloccpus,state,exitcode";

// A field of sacct. If the width is negative, the field is left-justified.
struct AcctField {
    const char* name;
    int width;
    std::string (*value)(const Json& job, Time now);
};

std::string hours_text(std::chrono::seconds time) {
    const std::string text = slurm_duration_text(time);
    // sacct always prints hours, as in 00:05:00
    if (std::ranges::count(text, ':') == 2)
        return text.find('-') == std::string::npos && text.size() < 8 ? "0" + text : text;
    return text.size() < 5 ? "00:0" + text : "00:" + text;
}

std::string elapsed_text(const Json& job, Time now) { return hours_text(run_time(job, now)); }

std::string limit_text(const Json& job) {
    const Json resources = job.value("resources", Json::object());
    const auto limit = resources.value("time_seconds", std::int64_t{0});
    return limit == 0 ? "UNLIMITED" : slurm_duration_text(std::chrono::seconds(limit));
}

// Returns a measured value of the job's attempts; 0 if the job has not run.
double used(const Json& job, const char* key) {
    const Json usage = job.value("usage", Json());
    return usage.is_object() ? usage.value(key, 0.0) : 0.0;
}

// Returns a number of bytes in the unit of MaxRSS, or "" for 0.
std::string kibibytes_text(double bytes) {
    return bytes == 0 ? "" : fmt::format("{:.0f}K", std::ceil(bytes / 1024));
}
std::string mebibytes_text(double bytes) { return fmt::format("{:.2f}M", bytes / (1 << 20)); }

// Returns a time in the form of TotalCPU: "MM:SS.mmm", or "HH:MM:SS" from one hour on.
std::string cpu_time_text(double cpu_seconds) {
    const auto whole = static_cast<std::int64_t>(cpu_seconds);
    if (whole >= 3600) return hours_text(std::chrono::seconds(whole));
    const double rest = cpu_seconds - static_cast<double>(whole / 60 * 60);
    return fmt::format("{:02}:{:06.3f}", whole / 60, std::min(rest, 59.999));
}

std::string id_text(const Json& job, Time) { return slurm_job_id(job); }
std::string cpus_text(const Json& job, Time) { return std::to_string(job_cpus(job)); }
std::string nodes_count(const Json& job, Time) { return std::to_string(job_nodes(job)); }

constexpr std::array kAcctFields = {
    AcctField{"JobID", -12, id_text},
    AcctField{"JobIDRaw", -12, [](const Json& job, Time) { return field_text(job, "id"); }},
    AcctField{"JobName", 10, [](const Json& job, Time) { return field_text(job, "name"); }},
    AcctField{"Partition", 10, [](const Json&, Time) { return std::string("roll"); }},
    AcctField{"Account", 10, [](const Json& job, Time) { return field_text(job, "account"); }},
    AcctField{"User", 9, [](const Json& job, Time) { return field_text(job, "user"); }},
    AcctField{"AllocCPUS", 10, cpus_text},
    AcctField{"NCPUS", 10, cpus_text},
    AcctField{"ReqCPUS", 8, cpus_text},
    AcctField{"NNodes", 8, nodes_count},
    AcctField{"AllocNodes", 10, nodes_count},
    AcctField{"State", 10,
              [](const Json& job, Time) { return std::string(slurm_state(job).name); }},
    AcctField{"ExitCode", 8, [](const Json& job, Time) { return slurm_exit_code(job); }},
    AcctField{"Elapsed", 10, elapsed_text},
    AcctField{"ElapsedRaw", 10,
              [](const Json& job, Time now) { return std::to_string(run_time(job, now).count()); }},
    AcctField{
        "CPUTime", 10,
        [](const Json& job, Time now) { return hours_text(run_time(job, now) * job_cpus(job)); }},
    AcctField{"CPUTimeRAW", 10,
              [](const Json& job, Time now) {
                  return std::to_string((run_time(job, now) * job_cpus(job)).count());
              }},
    AcctField{"TotalCPU", 10,
              [](const Json& job, Time) { return cpu_time_text(used(job, "cpu_seconds")); }},
    AcctField{"MaxRSS", 10,
              [](const Json& job, Time) { return kibibytes_text(used(job, "memory_peak")); }},
    AcctField{"MaxDiskRead", 12,
              [](const Json& job, Time) { return mebibytes_text(used(job, "disk_read")); }},
    AcctField{"MaxDiskWrite", 12,
              [](const Json& job, Time) { return mebibytes_text(used(job, "disk_written")); }},
    AcctField{"ReqMem", 10,
              [](const Json& job, Time) {
                  const Json resources = job.value("resources", Json::object());
                  return fmt::format("{}M", resources.value("memory", std::int64_t{0}) >> 20);
              }},
    AcctField{"Timelimit", 10, [](const Json& job, Time) { return limit_text(job); }},
    AcctField{"Submit", 19, [](const Json& j, Time) { return slurm_time_text(j["submitted_at"]); }},
    AcctField{"Start", 19,
              [](const Json& j, Time) { return slurm_time_text(j["started_at"], "Unknown"); }},
    AcctField{"End", 19,
              [](const Json& j, Time) { return slurm_time_text(j["ended_at"], "Unknown"); }},
    AcctField{"NodeList", 15,
              [](const Json& job, Time) {
                  const std::string nodes = slurm_nodes(job);
                  return nodes.empty() ? "None assigned" : nodes;
              }},
    AcctField{"Priority", 10, [](const Json& job, Time) { return field_text(job, "priority"); }},
    AcctField{"Reason", 22, [](const Json& job, Time now) { return slurm_reason(job, now); }},
};

bool same_name(const std::string& a, const std::string& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
               return std::tolower(static_cast<unsigned char>(x)) ==
                      std::tolower(static_cast<unsigned char>(y));
           });
}

// Parses a list of field names such as "JobID,State%20".
Result<std::vector<AcctField>> read_fields(const std::string& format) {
    std::vector<AcctField> fields;
    for (const std::string& part : split_at(format, ',')) {
        const std::string name = part.substr(0, part.find('%'));
        const auto found = std::ranges::find_if(
            kAcctFields, [&](const AcctField& field) { return same_name(field.name, name); });
        if (found == kAcctFields.end()) {
            std::string known;
            for (const AcctField& field : kAcctFields) known += fmt::format(" {}", field.name);
            return fail(
                ErrorCode::InvalidArgument,
                fmt::format("sacct: the field {} has no meaning in Roll; allowed:{}", name, known));
        }
        fields.push_back(*found);
        if (name.size() < part.size()) fields.back().width = std::atoi(&part[name.size() + 1]);
    }
    return fields;
}

std::string acct_cell(const AcctField& field, const std::string& value) {
    const auto width = static_cast<std::size_t>(std::abs(field.width));
    if (value.size() > width) return value.substr(0, width - 1) + "+";
    const std::string blanks(width - value.size(), ' ');
    return field.width < 0 ? value + blanks : blanks + value;
}

Result<std::optional<Time>> read_acct_time(const SlurmArguments& arguments, const char* name,
                                           Time now) {
    if (!arguments.has(name)) return std::nullopt;
    const auto time = slurm_instant(arguments.value(name), now);
    if (time) return time;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("sacct: --{} is \"{}\"; allowed: 2026-11-26, 2026-11-26T08:00, today "
                            "or now",
                            name, arguments.value(name)));
}

bool acct_wants(const Json& job, const SlurmArguments& arguments) {
    const auto any = [&](const char* name, const auto& matches) {
        const auto list = arguments.list(name);
        return list.empty() || std::ranges::any_of(list, matches);
    };
    const auto ids = split_ids(arguments.value("jobs"));
    const auto meant = [&](const std::string& one) { return is_meant(job, one); };
    return (ids.empty() || std::ranges::any_of(ids, meant)) &&
           any("name", [&](const std::string& one) { return field_text(job, "name") == one; }) &&
           any("state", [&](const std::string& one) { return has_state(job, one); }) &&
           any("user", [&](const std::string& one) { return field_text(job, "user") == one; });
}

}  // namespace

Result<int> run_sacct(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(const SlurmArguments arguments, read_slurm_arguments("sacct", words, kSacctFlags));
    ROLL_TRY(const std::vector<AcctField> fields,
             read_fields(arguments.has("format") ? arguments.value("format") : kSacctUsual));
    ROLL_TRY_VOID(check_states("sacct", arguments.list("state")));
    const Time now = wall_clock_now();
    ROLL_TRY(std::optional<Time> from, read_acct_time(arguments, "starttime", now));
    ROLL_TRY(const std::optional<Time> until, read_acct_time(arguments, "endtime", now));
    // If neither a time nor ids are given, sacct lists the jobs since midnight.
    if (!from && !arguments.has("jobs")) from = slurm_instant("today", now);
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.jobs({.all = true}));
    const bool plain = arguments.has("parsable") || arguments.has("parsable2");
    std::string text;
    const auto line = [&](const auto& value) {
        for (std::size_t i = 0; i < fields.size(); ++i) {
            const bool bar = arguments.has("parsable") || i + 1 < fields.size();
            text += plain ? value(fields[i]) + (bar ? "|" : "")
                          : acct_cell(fields[i], value(fields[i])) + " ";
        }
        text += "\n";
    };
    if (!arguments.has("noheader")) line([](const AcctField& f) { return std::string(f.name); });
    if (!arguments.has("noheader") && !plain)
        line([](const AcctField& f) { return std::string(std::abs(f.width), '-'); });
    for (const Json& job : reply.value("jobs", Json::array())) {
        const auto ended = parse_time(job.value("ended_at", Json()));
        const auto submitted = parse_time(job.value("submitted_at", Json()));
        if (from && ended && *ended < *from) continue;
        if (until && submitted && *submitted > *until) continue;
        if (acct_wants(job, arguments))
            line([&](const AcctField& field) { return field.value(job, now); });
    }
    print(text);
    return 0;
}

}  // namespace roll::cli
