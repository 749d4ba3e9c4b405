// Options and code of `rollctl usage` and `rollctl report`.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct UsageOptions {
    std::string user;  // empty: the caller
    bool csv = false;
};
void add_usage_options(CLI::App& command, UsageOptions& options);
Result<int> run_usage(const Context& context, const UsageOptions& options);

struct ReportOptions {
    std::string by = "user";
    std::string since;  // count only what was held since this time; empty: all
    bool csv = false;
};
void add_report_options(CLI::App& command, ReportOptions& options);
Result<int> run_report(const Context& context, const ReportOptions& options);

// Adds pages of a report, which have the rows of different jobs. Returns {rows, total} with hours
// in place of milliseconds; `by` names the rows' key.
Json report_of(const std::vector<Json>& pages, const std::string& by);

// Formats a report as a table.
std::string report_text(const Json& report, std::size_t width);

// Formats rows as CSV (RFC 4180, lines end with \n). The first row is the title.
std::string csv_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace roll::cli
