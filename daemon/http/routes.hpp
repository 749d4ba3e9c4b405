// The table of the addresses that have a handler of their own. roll-web finds the handler of a
// request in this table, and the OpenAPI file describes each row. The operations of rolld
// (/api/v1/NAME) have a table of their own (common/protocol/operations.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/arguments.hpp"
#include "common/protocol/field_info.hpp"
#include "daemon/http/job_files.hpp"

namespace roll::http {

enum class Page {
    Session,
    Stream,
    OpenApi,
    Metrics,
    Allocations,
    Job,
    JobLog,
    JobMetrics,
    JobSweep,
    JobPipeline,
    JobCancel,
    JobHold,
    JobRelease,
    JobCheckpoint,
};

struct Route {
    Page page;
    bool posts = false;  // true if requests use POST, false if they use GET or HEAD
    const char* path;    // "{id}" stands for a job's number
    const char* name;    // unique; the operationId in the OpenAPI file
    const char* summary;
    const char* type = "application/json";  // Content-Type of the reply
    const char* schema;                     // schema of a JSON reply; empty: none
    // Returns the fields of the query, or of the body of a POST request.
    std::vector<protocol::FieldInfo> (*fields)();
    protocol::Access access = protocol::Access::Read;  // access that the token must give
};

std::span<const Route> routes();

struct RouteMatch {
    const Route* route = nullptr;  // null if the address does not accept the method
    std::string id{};              // the segment at the place of "{id}"
};

// Returns the route of the address with the segments `path`; nullopt if there is none.
std::optional<RouteMatch> find_route(const std::vector<std::string>& path, bool posts);

// The fields of the queries and bodies.
struct NoArgs {};
struct StreamArgs {
    std::string watch{};
};
struct LogArgs {
    std::uint32_t rank = 0;
    std::optional<std::uint32_t> attempt{};
    std::optional<std::uint64_t> from{};
};
struct MetricsArgs {
    int points = kPointsMax;
    std::string keys{};
};
struct ReasonArgs {
    std::string reason{};
};

// clang-format off
template <class V> void fields(V&, NoArgs&) {}
template <class V> void fields(V& v, StreamArgs& a) {
    v.needs("watch", a.watch, "up to 8 GET requests below /api/v1/, separated by spaces");
}
template <class V> void fields(V& v, LogArgs& a) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    v("rank", a.rank, "number of the rank", {.maximum = kMost});
    v("attempt", a.attempt, "number of the attempt; default: the newest", {.minimum = 1, .maximum = kMost});
    v("from", a.from, "first byte; default: the end of the log");
}
template <class V> void fields(V& v, MetricsArgs& a) {
    v("points", a.points, "wanted number of rows over the whole run; the reply may have up to about twice this number",
      {.minimum = 2, .maximum = kPointsMax});
    v("keys", a.keys, "fields of the rows, separated by commas; default: all fields");
}
template <class V> void fields(V& v, ReasonArgs& a) { v("reason", a.reason, "reason, shown with the job"); }
// clang-format on

}  // namespace roll::http
