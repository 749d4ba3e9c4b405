// Options and code of `rollctl usage` and `rollctl report`.
#pragma once

#include <string>
#include <vector>

#include "cli/client/context.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct UsageOptions {
    std::string user;  // user whose usage is shown; empty: the caller
    bool csv = false;
};
void add_usage_options(CLI::App& command, UsageOptions& options);
Result<int> run_usage(const Context& context, const UsageOptions& options);

struct ReportOptions {
    std::vector<std::string> by = {"user"};
    std::string since;  // count only the use since this time; empty: all use
    std::string until;  // count only the use before this time; empty: all use
    bool csv = false;
};
void add_report_options(CLI::App& command, ReportOptions& options);
Result<int> run_report(const Context& context, const ReportOptions& options);

// Adds up the pages of a report. Each page counts different jobs. Returns {rows, total}, with all
// times in hours instead of milliseconds. `by` has the keys by which the rows are grouped, such as
// "user".
Json report_of(const std::vector<Json>& pages, const std::vector<std::string>& by);

// Formats a report as a table.
std::string report_text(const Json& report, std::size_t width);

// Formats rows as CSV (RFC 4180, but lines end with \n). The first row has the titles.
std::string csv_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace roll::cli
