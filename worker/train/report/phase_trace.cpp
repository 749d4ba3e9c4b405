#include "worker/train/report/phase_trace.hpp"

#include <chrono>
#include <cstdio>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

using Clock = PhaseClock::Clock;

double microseconds(Clock::time_point start, Clock::time_point at) {
    return std::chrono::duration<double, std::micro>(at - start).count();
}

// Returns the spans of all ranks as a tensor [ranks, spans, 3]. The three numbers of a span are its
// phase, and its begin and end in microseconds since `start`. If a rank has fewer spans than
// another rank, its last spans have phase -1.
at::Tensor spans_of_all(Communicator& world, Clock::time_point start,
                        const std::vector<PhaseClock::Span>& spans) {
    const at::Tensor count = at::full({1}, static_cast<double>(spans.size()), at::kDouble);
    const auto most = static_cast<std::int64_t>(
        gather_over(world, count, {Site::Agreement}).max().item<double>());
    const at::Tensor own = at::full({most, 3}, -1, at::kDouble);
    auto* const rows = own.data_ptr<double>();
    for (std::size_t i = 0; i < spans.size(); ++i) {
        rows[3 * i] = static_cast<double>(spans[i].phase);
        rows[3 * i + 1] = microseconds(start, spans[i].begin);
        rows[3 * i + 2] = microseconds(start, spans[i].end);
    }
    return gather_over(world, own, {Site::Agreement});
}

std::string thread_name(std::int64_t thread, const std::string& name) {
    return R"({"name": "thread_name", "ph": "M", "pid": 0, "tid": )" + std::to_string(thread) +
           R"(, "args": {"name": ")" + name + R"("}})";
}

std::string box_text(const std::string& name, const char* category, double begin, double end,
                     std::int64_t thread) {
    char times[96];
    std::snprintf(times, sizeof times, R"("ts": %.1f, "dur": %.1f, "pid": 0, "tid": %lld})", begin,
                  end - begin, static_cast<long long>(thread));
    return ",\n{\"name\": \"" + name + R"(", "cat": ")" + category + R"(", "ph": "X", )" + times;
}

}  // namespace

std::string phase_trace(Communicator& world, Clock::time_point start,
                        const std::vector<PhaseClock::Span>& spans,
                        const std::vector<StepSpan>& steps) {
    const at::Tensor all = spans_of_all(world, start, spans);
    std::string events = thread_name(0, "steps");
    for (const StepSpan& step : steps)
        events += box_text("step " + std::to_string(step.step), "step",
                           microseconds(start, step.begin), microseconds(start, step.end), 0);
    const auto* row = all.const_data_ptr<double>();
    for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
        events += ",\n" + thread_name(rank + 1, "rank " + std::to_string(rank));
        for (std::int64_t i = 0; i < all.size(1); ++i, row += 3) {
            const auto phase = static_cast<std::ptrdiff_t>(row[0]);
            if (phase < 0) continue;
            const char* const name = static_cast<std::size_t>(phase) < kPhases
                                         ? kPhaseNames[static_cast<std::size_t>(phase)]
                                         : "outside";
            events += box_text(name, "phase", row[1], row[2], rank + 1);
        }
    }
    return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace roll::train
