#include "cli/top/reader.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "cli/show/job_view.hpp"
#include "cli/show/log_lines.hpp"
#include "cli/text/text_width.hpp"
#include "cli/top/rows.hpp"
#include "common/protocol/allocation_operations.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli::top {
namespace {

constexpr int kWaitMs = 250;  // maximum time in ms to wait for an event
constexpr int kEventsRead = 1000;
constexpr std::size_t kEventsKept = 100;
constexpr int kJobsRead = 500;  // maximum number of rows of each reply to `jobs`
constexpr std::uint64_t kNodesRead = 10'000;
constexpr std::size_t kLinesKept = 10'000;  // maximum number of lines of the open log
constexpr std::size_t kCurvesRead = 100;    // maximum number of running jobs with curves
// maximum number of bytes of metrics that are read for a job in a list
constexpr std::uint64_t kRecentBytes = 64u << 10;
// Interval between two samples of GPU load and memory. A roll-worker measures at the same interval.
constexpr auto kBetweenSamples = std::chrono::seconds(2);
constexpr std::size_t kSamplesKept = 100;

std::filesystem::path metrics_file(const Json& job) {
    return std::filesystem::path(field_text(job, "output")) / "metrics.jsonl";
}

std::uint64_t id_of(const Json& job) { return job.value("id", std::uint64_t{0}); }

// Returns a tail that begins at most kRecentBytes before the end of the file.
Tail recent_tail(const std::filesystem::path& file) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error || size <= kRecentBytes) return Tail(file);
    Tail tail(file, size - kRecentBytes);
    return tail;
}

void keep_newest(std::vector<double>& values) {
    if (values.size() > kSamplesKept)
        values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(kSamplesKept));
}

}  // namespace

// Reads the newest events on the first call, and all later events on later calls.
Result<void> Reading::read_events(int wait_ms) {
    for (bool more = true; more;) {
        protocol::EventsArgs args{.since = seen_, .limit = kEventsRead, .wait_ms = wait_ms};
        if (seen_ == 0) args.newest = kEventsKept;
        ROLL_TRY(const Json reply, ask(args));
        const Json events = reply.value("events", Json::array());
        for (const Json& event : events) {
            constexpr std::size_t kDate = 11;  // length of "2026-11-22 "
            std::string line = event_text(event, true);
            line.pop_back();
            data_.events.push_back(line.substr(std::min(kDate, line.size())));
            if (data_.events.size() > kEventsKept) data_.events.pop_front();
        }
        seen_ = reply.value("next", seen_);
        more = !events.empty();
        wait_ms = 0;
    }
    return {};
}

// Requests the running jobs, then all jobs that have not ended and, if wanted, the newest finished
// jobs. If a job or an array is in several replies, the row of the last reply is used. For an
// array, only this row counts all tasks.
Result<void> Reading::read_jobs(const Wanted& wanted) {
    std::vector<protocol::JobsArgs> requests = {{.state = "running"}, {}};
    if (wanted.finished) requests.push_back({.all = true, .reverse = true});
    std::map<std::uint64_t, Json> rows;
    for (protocol::JobsArgs& args : requests) {
        args.limit = kJobsRead;
        args.fold = !wanted.expand;
        ROLL_TRY(const Json reply, ask(args));
        data_.running = reply.value("running", std::uint64_t{0});
        data_.queued = reply.value("queued", std::uint64_t{0});
        for (const Json& job : reply.value("jobs", Json::array()))
            rows[wanted.expand ? id_of(job) : row_key(job)] = job;
    }
    data_.jobs = Json::array();
    for (auto& [key, job] : rows) data_.jobs.push_back(std::move(job));
    return {};
}

void Reading::read_curves() {
    std::size_t count = 0;
    for (const Json& job : data_.jobs) {
        if (field_text(job, "state") != "running" || ++count > kCurvesRead) continue;
        const std::uint64_t id = id_of(job);
        const auto known = tails_.find(id);
        Tail& tail = known != tails_.end()
                         ? known->second
                         : tails_.emplace(id, recent_tail(metrics_file(job))).first->second;
        Curve& curve = data_.curves[id];
        for (const Json& row : metric_rows(tail)) {
            const auto put = [&](const char* key, std::vector<double>& values) {
                if (row.value(key, Json()).is_number()) values.push_back(row[key].get<double>());
                keep_newest(values);
            };
            put("loss", curve.loss);
            put("tokens_per_second", curve.tokens_per_second);
        }
    }
}

void Reading::sample_use() {
    const auto now = std::chrono::steady_clock::now();
    if (now < sample_due_) return;
    sample_due_ = now + kBetweenSamples;
    for (const Json& job : data_.jobs) {
        const Json progress = job.value("progress", Json());
        const auto put = [&](const char* key, std::vector<double> Curve::*samples) {
            const Json value = progress.is_object() ? progress.value(key, Json()) : Json();
            if (!value.is_number()) return;
            auto& all = data_.curves[id_of(job)].*samples;
            all.push_back(value.get<double>());
            keep_newest(all);
        };
        put("gpu_percent", &Curve::gpu_percent);
        put("memory", &Curve::memory);
    }
}

// Reads the job whose page is open, and the metrics of its whole run.
Result<void> Reading::read_open(const Wanted& wanted) {
    if (!wanted.job) {
        whole_.reset();
        whole_of_ = 0;
        data_.open = {};
        return {};
    }
    ROLL_TRY(const Json reply, ask(protocol::ShowArgs{.id = *wanted.job}));
    data_.open.job = reply.value("job", Json());
    if (whole_of_ != *wanted.job) {
        whole_of_ = *wanted.job;
        whole_.emplace(metrics_file(data_.open.job));
        data_.open.loss.clear();
        data_.open.speed.clear();
        data_.open.phases = {};
        data_.open.head = {};
    }
    for (const Json& row : metric_rows(*whole_)) {
        if (row.contains("schema")) data_.open.head = row;
        const Json step = row.value("step", Json());
        const auto put = [&](const char* key, std::vector<Point>& points) {
            if (row.value(key, Json()).is_number() && step.is_number())
                points.push_back({step.get<double>(), row[key].get<double>()});
        };
        put("loss", data_.open.loss);
        put("tokens_per_second", data_.open.speed);
        add_step(data_.open.phases, row);
    }
    return {};
}

void Reading::read_log(const Wanted& wanted) {
    if (!wanted.log) {
        log_.reset();
        data_.log = {};
        return;
    }
    const auto file = log_file(field_text(data_.open.job, "output"), std::nullopt, wanted.rank);
    if (!file) {
        log_.reset();
        data_.log = {file.error().message};
        return;
    }
    if (!log_ || log_->file() != *file) {
        log_.emplace(*file, offset_of_last(StoredFile(*file), kLinesKept,
                                           [](std::string_view) { return true; }));
        data_.log = {file->string()};
    }
    for (const std::string& line : log_->lines()) {
        data_.log.lines.push_back(harmless(line));
        if (data_.log.lines.size() <= kLinesKept) continue;
        data_.log.lines.pop_front();
        ++data_.log.before;
    }
}

Result<void> Reading::look(const Wanted& wanted, int wait_ms) {
    ROLL_TRY_VOID(read_events(wait_ms));
    ROLL_TRY_VOID(read_jobs(wanted));
    const std::uint64_t limit = wanted.page == Page::Nodes ? kNodesRead : 1;
    ROLL_TRY(const Json nodes, ask(protocol::NodesArgs{.limit = limit}));
    data_.nodes = nodes.value("nodes", Json::array());
    data_.all = nodes.value("all", Json::object());
    if (wanted.page == Page::Allocations) {
        ROLL_TRY(data_.allocations, ask(protocol::AllocListArgs{}));
    }
    ROLL_TRY_VOID(read_open(wanted));
    read_log(wanted);
    read_curves();
    sample_use();
    return {};
}

void Reading::cancel(const std::string& selector) {
    protocol::CancelArgs args;
    args.selector = selector;
    args.wait_ms = 2000;
    const auto reply = daemon_.ask_patiently(args, std::chrono::seconds(10));
    ++data_.answers;
    if (!reply) {
        data_.answer = reply.error().message;
        return;
    }
    std::string text =
        jobs_text(reply->value("cancelled", Json::array()), "cancelled", /*parsable=*/false);
    if (text.empty()) text = "job " + selector + " is being cancelled\n";
    text.pop_back();
    data_.answer = text;
}

Reader::Reader(Reading reading, std::function<void()> wake) {
    shared_->data = std::make_shared<const Data>(reading.data());
    std::thread([shared = shared_, reading = std::move(reading), wake = std::move(wake)]() mutable {
        run(shared, std::move(reading), wake);
    }).detach();  // detached, because the program may end while the thread waits for rolld
}

void Reader::run(const std::shared_ptr<Shared>& shared, Reading reading,
                 const std::function<void()>& wake) {
    for (Wanted last;;) {
        std::deque<std::string> to_cancel;
        Wanted wanted;
        {
            const std::lock_guard lock(shared->mutex);
            wanted = shared->wanted;
            to_cancel.swap(shared->to_cancel);
        }
        for (const std::string& selector : to_cancel) reading.cancel(selector);
        // After the user opened a page or cancelled jobs, answer at once instead of waiting for
        // events.
        const bool hurries = wanted != last || !to_cancel.empty();
        const auto looked = reading.look(wanted, hurries ? 0 : kWaitMs);
        last = wanted;
        reading.data().trouble = looked ? "" : looked.error().message;
        if (!looked) pause(std::chrono::milliseconds(kWaitMs));
        {
            const std::lock_guard lock(shared->mutex);
            shared->data = std::make_shared<const Data>(reading.data());
        }
        wake();
    }
}

std::shared_ptr<const Data> Reader::data() {
    const std::lock_guard lock(shared_->mutex);
    return shared_->data;
}

void Reader::want(const Wanted& wanted) {
    const std::lock_guard lock(shared_->mutex);
    shared_->wanted = wanted;
}

void Reader::cancel(std::string selector) {
    const std::lock_guard lock(shared_->mutex);
    shared_->to_cancel.push_back(std::move(selector));
}

}  // namespace roll::cli::top
