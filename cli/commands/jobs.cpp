#include <algorithm>

#include <CLI/CLI.hpp>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/selector.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/since.hpp"
#include "cli/text/text_width.hpp"

namespace roll::cli {

Result<int> print_format_help(const Fields& fields) {
    ROLL_TRY(const std::string text, format_help(fields, formats_file()));
    print(text);
    return 0;
}

namespace {

// Prints the jobs of all pages as one JSON value. Keeps only one page in memory.
class JsonPrinter {
  public:
    void add(Json& page) {
        std::string text = rest_.is_null() ? "{\n  \"jobs\": [" : "";
        for (const Json& job : page["jobs"]) {
            text += any_ ? ",\n    " : "\n    ";
            any_ = true;
            const std::string one = job.dump(2, ' ', false, Json::error_handler_t::replace);
            for (const char c : escaped_json(one)) {
                text += c;
                if (c == '\n') text += "    ";
            }
        }
        print(text);
        if (!rest_.is_null()) return;
        page.erase("jobs");
        page.erase("next");
        rest_ = std::move(page);
    }
    void finish() const {
        const std::string others = rest_.dump(2, ' ', false, Json::error_handler_t::replace);
        print((any_ ? "\n  ]," : "],") + escaped_json(others.substr(1)) + "\n");
    }

  private:
    Json rest_{};  // fields of the first reply, without the list of jobs
    bool any_ = false;
};

// Prints pages of jobs as ids, or as a table with one title.
class TextPrinter {
  public:
    TextPrinter(const Context& context, const Format& format)
        : context_(context),
          format_(format),
          look_(look_of(context)) {}

    void add(const Json& page) {
        const Json& jobs = page.at("jobs");
        if (jobs.empty()) return;
        std::string text;
        for (const Json& job : jobs)
            if (context_.parsable) text += job.value("id", Json()).dump() + "\n";
        if (!context_.parsable) text = jobs_text(jobs, format_, look_);
        const bool titled = shown_ > 0 && format_.pattern.empty() && !context_.parsable;
        print(titled ? text.substr(text.find('\n') + 1) : text);
        shown_ += jobs.size();
    }
    // If no row was printed, prints the titles of the empty table. Returns the number of printed
    // rows.
    std::size_t finish() const {
        if (shown_ == 0 && !context_.parsable) print(jobs_text(Json::array(), format_, look_));
        return shown_;
    }

  private:
    const Context& context_;
    const Format& format_;
    Look look_;
    std::size_t shown_ = 0;
};

// Returns the newest jobs that match `args`: at most `count` jobs, as one page, the oldest job
// first.
Result<Json> newest(Daemon& daemon, protocol::JobsArgs args, std::size_t count) {
    args.reverse = true;
    Json all;
    Json jobs = Json::array();
    for (Json next = 0; !next.is_null() && jobs.size() < count;) {
        args.from = next.get<std::uint64_t>();
        args.limit = static_cast<int>(count - jobs.size());
        ROLL_TRY(Json page, daemon.ask(args));
        next = page.value("next", Json());
        for (Json& job : page["jobs"]) jobs.push_back(std::move(job));
        page.erase("jobs");
        if (all.is_null()) all = std::move(page);
    }
    std::ranges::reverse(jobs.get_ref<Json::array_t&>());
    all["jobs"] = std::move(jobs);
    return all;
}

// Returns the arguments of the request `jobs`, except the arguments that select a page.
Result<protocol::JobsArgs> request_of(const Context& context, const JobsOptions& options,
                                      const Format& format) {
    protocol::JobsArgs args{
        .selector = options.selector, .state = options.state, .user = options.user};
    // A selector, a state or a time also selects jobs that have ended.
    args.all = options.all || !options.selector.empty() || !options.state.empty() ||
               !options.since.empty();
    if (!options.since.empty()) {
        ROLL_TRY(const Time since, parse_since(options.since, wall_clock_now()));
        args.since = since.time_since_epoch().count();
    }
    // Request only the fields to print. For a long queue, this takes a fraction of the time.
    if (context.parsable)
        args.fields = {"id"};
    else if (!context.json)
        args.fields = asked_fields(format);
    // Only the default table folds the tasks of an array into one row. All other outputs are for
    // scripts and have one row for each task.
    args.fold = !context.json && !context.parsable && format.fields.empty() && !options.expand;
    return args;
}

}  // namespace

void add_jobs_options(CLI::App& command, JobsOptions& options) {
    add_selector(command, options.selector);
    command.add_flag("-a,--all", options.all, "Also list finished jobs");
    command.add_option("--state", options.state, "Only jobs in this state")
        ->check(CLI::IsMember({"queued", "running", "done", "failed", "cancelled"}));
    command.add_option("--user", options.user, "Only this user's jobs");
    command.add_option("--since", options.since,
                       "Also list jobs that ended since this time: 2h, or 2026-11-22T08:00:00Z");
    command.add_option("-n,--newest", options.newest, "Only the newest N rows")
        ->check(CLI::Range(1, 1'000'000'000));
    command.add_flag("-r,--expand", options.expand, "Show a row for each task of an array");
}

Result<int> run_jobs(const Context& context, const JobsOptions& options) {
    if (options.format == "help") return print_format_help(job_fields());
    ROLL_TRY(const Format format, parse_format(options.format, job_fields(), formats_file()));
    ROLL_TRY(protocol::JobsArgs args, request_of(context, options, format));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    JsonPrinter json;
    TextPrinter text(context, format);
    const auto add = [&](Json& page) { context.json ? json.add(page) : text.add(page); };
    if (options.newest) {
        ROLL_TRY(Json page, newest(daemon, std::move(args), *options.newest));
        add(page);
    } else {
        // Request pages with few rows, so that the first rows of a long queue are printed at once.
        // With a selector, use rolld's default page size, because rolld evaluates the selector
        // again for each page.
        constexpr int kJobsPerPage = 4000;  // a page takes about 30 MB of memory as JSON
        constexpr int kRowsPerPage = 2000;
        if (context.json || options.selector.empty())
            args.limit = context.json ? kJobsPerPage : kRowsPerPage;
        ROLL_TRY_VOID(daemon.each_page(std::move(args), add));
    }
    if (context.json)
        json.finish();
    else if (text.finish() == 0 && !context.parsable && !options.all)
        say("no job is queued or running; rollctl jobs -a also lists finished jobs");
    return 0;
}

}  // namespace roll::cli
