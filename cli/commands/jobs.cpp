#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/job_view.hpp"
#include "common/time.hpp"

namespace roll::cli {

Result<int> print_format_help(const Fields& fields) {
    ROLL_TRY(const std::string text, format_help(fields, formats_file()));
    print(text);
    return 0;
}

Result<int> run_jobs(const Context& context, const JobsOptions& options) {
    if (options.format == "help") return print_format_help(job_fields());
    ROLL_TRY(const Format format, parse_format(options.format, job_fields(), formats_file()));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    Json args = Json::object();
    if (!options.selector.empty()) args["selector"] = options.selector;
    // Who names a job or a state means finished ones too.
    args["all"] = options.all || !options.selector.empty() || !options.state.empty();
    if (!options.state.empty()) args["state"] = options.state;
    if (!options.user.empty()) args["user"] = options.user;
    // A long queue is many times as fast without what is not shown.
    if (context.parsable)
        args["fields"] = {"id"};
    else if (!context.json)
        args["fields"] = asked_fields(format);
    ROLL_TRY(const Json reply, daemon.jobs(args));
    const Json jobs = reply.value("jobs", Json::array());
    if (context.json) {
        print_json(reply);
    } else if (context.parsable) {
        for (const Json& job : jobs) print(job.value("id", Json()).dump() + "\n");
    } else {
        print(jobs_text(jobs, format, wall_clock_now(), context.color));
        if (jobs.empty() && !options.all) say("nothing is queued or running; rollctl jobs -a");
    }
    return 0;
}

}  // namespace roll::cli
