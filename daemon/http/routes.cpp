#include "daemon/http/routes.hpp"

#include <array>
#include <string_view>

#include "common/split.hpp"

namespace roll::http {
namespace {

using protocol::Access;
using protocol::fields_of;

// clang-format off
constexpr std::array kRoutes = {
    Route{.page = Page::Session, .path = "/api/v1/session", .name = "session",
          .summary = "Returns the rights of the token.",
          .schema = "roll.session/1", .fields = fields_of<NoArgs>},
    Route{.page = Page::Stream, .path = "/api/v1/stream", .name = "stream",
          .summary = "Sends the answers to the requests in `watch` as server-sent events. Sends an "
                     "answer again when it changes; for a log, sends only the added text. The "
                     "stream stays open until the client closes it.",
          .type = "text/event-stream", .schema = "", .fields = fields_of<StreamArgs>},
    Route{.page = Page::OpenApi, .path = "/api/v1/openapi.json", .name = "openapi",
          .summary = "Returns this description.",
          .schema = "", .fields = fields_of<NoArgs>},
    Route{.page = Page::Metrics, .path = "/metrics", .name = "prometheus",
          .summary = "Returns the metrics of rolld in Prometheus' text format.",
          .type = "text/plain; version=0.0.4; charset=utf-8", .schema = "", .fields = fields_of<NoArgs>},
    Route{.page = Page::Allocations, .path = "/api/v1/allocations", .name = "allocations",
          .summary = "Lists allocation queues and allocations, as alloc_list does.",
          .schema = "roll.allocations/1", .fields = fields_of<NoArgs>},
    Route{.page = Page::Job, .path = "/api/v1/jobs/{id}", .name = "job",
          .summary = "Shows one job with its attempts and checkpoints.",
          .schema = "roll.job/1", .fields = fields_of<NoArgs>},
    Route{.page = Page::JobLog, .path = "/api/v1/jobs/{id}/log", .name = "job_log",
          .summary = "Returns at most 256 KiB of the log of a rank.",
          .schema = "roll.log/1", .fields = fields_of<LogArgs>},
    Route{.page = Page::JobMetrics, .path = "/api/v1/jobs/{id}/metrics", .name = "job_metrics",
          .summary = "Returns rows of the job's metrics.jsonl.",
          .schema = "roll.metric_rows/1", .fields = fields_of<MetricsArgs>},
    Route{.page = Page::JobSweep, .path = "/api/v1/jobs/{id}/sweep", .name = "job_sweep",
          .summary = "Compares the trials of the sweep to which the job belongs.",
          .schema = "roll.sweep/1", .fields = fields_of<NoArgs>},
    Route{.page = Page::JobPipeline, .path = "/api/v1/jobs/{id}/pipeline", .name = "job_pipeline",
          .summary = "Returns the mesh and the pipeline schedule of a training job with parallel.pp.",
          .schema = "roll.pipeline/1", .fields = fields_of<NoArgs>},
    Route{.page = Page::JobCancel, .posts = true, .path = "/api/v1/jobs/{id}/cancel", .name = "job_cancel",
          .summary = "Cancels the job.",
          .schema = "roll.cancel/1", .fields = fields_of<ReasonArgs>, .access = Access::Change},
    Route{.page = Page::JobHold, .posts = true, .path = "/api/v1/jobs/{id}/hold", .name = "job_hold",
          .summary = "Holds the job: it does not start before it is released.",
          .schema = "roll.held/1", .fields = fields_of<NoArgs>, .access = Access::Change},
    Route{.page = Page::JobRelease, .posts = true, .path = "/api/v1/jobs/{id}/release", .name = "job_release",
          .summary = "Releases the job.",
          .schema = "roll.held/1", .fields = fields_of<NoArgs>, .access = Access::Change},
    Route{.page = Page::JobCheckpoint, .posts = true, .path = "/api/v1/jobs/{id}/checkpoint", .name = "job_checkpoint",
          .summary = "Asks the running training to save a checkpoint now.",
          .schema = "roll.asked/1", .fields = fields_of<NoArgs>, .access = Access::Change},
};
// clang-format on

}  // namespace

std::span<const Route> routes() { return kRoutes; }

std::optional<RouteMatch> find_route(const std::vector<std::string>& path, bool posts) {
    // The segments of each route. The first request splits the paths, and later requests reuse
    // them.
    static const std::vector<std::vector<std::string>> kSegments = [] {
        std::vector<std::vector<std::string>> all;
        for (const Route& route : kRoutes) all.push_back(words_at(route.path, '/'));
        return all;
    }();
    std::optional<RouteMatch> match;
    for (std::size_t i = 0; i < kRoutes.size(); ++i) {
        const std::vector<std::string>& wanted = kSegments[i];
        bool same = wanted.size() == path.size();
        RouteMatch one;
        for (std::size_t j = 0; same && j < wanted.size(); ++j) {
            if (wanted[j] == "{id}")
                one.id = path[j];
            else
                same = wanted[j] == path[j];
        }
        if (!same) continue;
        if (kRoutes[i].posts == posts) one.route = &kRoutes[i];
        match = std::move(one);
        if (match->route != nullptr) return match;
    }
    return match;
}

}  // namespace roll::http
