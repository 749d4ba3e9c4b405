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

namespace {

// Prints the jobs of all pages as one JSON value, but keeps only one page in memory.
Result<int> print_whole(Daemon& daemon, Json args) {
    constexpr int kJobsPerPage = 4000;  // jobs per page; a page takes about 30 MB of memory
    args["limit"] = kJobsPerPage;
    Json rest;  // all fields of the first reply except the jobs
    bool any = false;
    ROLL_TRY_VOID(daemon.each_page(std::move(args), [&](Json& page) {
        std::string text = rest.is_null() ? "{\n  \"jobs\": [" : "";
        for (const Json& job : page["jobs"]) {
            text += any ? ",\n    " : "\n    ";
            any = true;
            for (const char c : job.dump(2, ' ', false, Json::error_handler_t::replace)) {
                text += c;
                if (c == '\n') text += "    ";
            }
        }
        print(text);
        if (!rest.is_null()) return;
        page.erase("jobs");
        page.erase("next");
        rest = std::move(page);
    }));
    const std::string others = rest.dump(2, ' ', false, Json::error_handler_t::replace);
    print((any ? "\n  ]," : "],") + others.substr(1) + "\n");
    return 0;
}

}  // namespace

Result<int> run_jobs(const Context& context, const JobsOptions& options) {
    if (options.format == "help") return print_format_help(job_fields());
    ROLL_TRY(const Format format, parse_format(options.format, job_fields(), formats_file()));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    Json args = Json::object();
    if (!options.selector.empty()) args["selector"] = options.selector;
    // Include jobs that have ended if the user gave a selector or a state.
    args["all"] = options.all || !options.selector.empty() || !options.state.empty();
    if (!options.state.empty()) args["state"] = options.state;
    if (!options.user.empty()) args["user"] = options.user;
    // Request only the fields to print, because a long queue then takes a fraction of the time.
    if (context.parsable)
        args["fields"] = {"id"};
    else if (!context.json)
        args["fields"] = asked_fields(format);
    if (context.json) return print_whole(daemon, std::move(args));
    // Few rows a page, so that the first rows of a long queue come at once. With a selector the
    // pages are larger, because rolld evaluates the selector for each page.
    constexpr int kRowsPerPage = 2000;
    if (options.selector.empty()) args["limit"] = kRowsPerPage;
    std::size_t shown = 0;
    ROLL_TRY_VOID(daemon.each_page(std::move(args), [&](const Json& page) {
        const Json& jobs = page.at("jobs");
        std::string text;
        for (const Json& job : jobs)
            if (context.parsable) text += job.value("id", Json()).dump() + "\n";
        if (!context.parsable) text = jobs_text(jobs, format, wall_clock_now(), context.color);
        const bool titled = shown > 0 && format.pattern.empty() && !context.parsable;
        print(titled ? text.substr(text.find('\n') + 1) : text);
        shown += jobs.size();
    }));
    if (!context.parsable && shown == 0 && !options.all)
        say("no job is queued or running; rollctl jobs -a also lists finished jobs");
    return 0;
}

}  // namespace roll::cli
