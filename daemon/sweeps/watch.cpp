#include "daemon/sweeps/watch.hpp"

#include <mutex>
#include <thread>

#include <boost/asio/post.hpp>

#include "common/json.hpp"
#include "common/spec/schema/array.hpp"

namespace roll::sweeps {
namespace {

// Returns the number of steps in a job's document; nullopt if the document does not give it.
std::optional<std::int64_t> steps_of(const std::string& text) {
    const auto document = parse_json(text);
    if (!document || !document->is_object()) return std::nullopt;
    const Json train = document->value("train", Json());
    const Json steps = train.is_object() ? train.value("steps", Json()) : Json();
    return holds<std::int64_t>(steps) ? std::optional(steps.get<std::int64_t>()) : std::nullopt;
}

}  // namespace

struct Watch::Home {
    std::mutex mutex;
    boost::asio::io_context* io = nullptr;
    Watch* watch = nullptr;  // nullptr once the watch is destroyed
};

Watch::Watch(boost::asio::io_context& io, const core::State& state,
             std::function<void(std::vector<Loser>)> stop, std::chrono::milliseconds pause)
    : state_(state),
      stop_(std::move(stop)),
      pause_(pause),
      timer_(io),
      home_(std::make_shared<Home>()) {
    home_->io = &io;
    home_->watch = this;
    note_new();
}

Watch::~Watch() {
    const std::lock_guard lock(home_->mutex);
    home_->watch = nullptr;
}

void Watch::note_new() {
    for (auto at = state_.jobs.lower_bound(next_); at != state_.jobs.end(); ++at) {
        const auto& [id, job] = *at;
        next_ = JobId{id.value + 1};
        if (!job.spec.array || job.array == last_array_) continue;
        last_array_ = job.array;
        const std::string document = job.spec.document.text();
        const auto halving = spec::halving_of(document);
        const auto indices = spec::array_indices(job.spec.array->indices);
        if (!halving || !indices) continue;
        const auto rungs = spec::rungs(*halving, indices->size(), steps_of(document));
        sweeps_.emplace(job.array, Sweep{*halving, indices->size(), rungs});
    }
    if (!sweeps_.empty() && !waiting_) wait();
}

void Watch::cancel() { timer_.cancel(); }

void Watch::wait() {
    waiting_ = true;
    timer_.expires_after(pause_);
    timer_.async_wait([this](boost::system::error_code error) {
        if (!error) look();
    });
}

// Adds to `work` the trials whose files may have unread lines. Returns whether a trial of the sweep
// has not ended.
bool Watch::add_work(JobId first, Sweep& sweep, std::vector<Work>& work) const {
    bool left = false;
    for (auto at = state_.jobs.lower_bound(first);
         at != state_.jobs.end() && at->second.array == first; ++at) {
        const auto& [id, job] = *at;
        const bool over = core::is_over(job.phase);
        left = left || !over;
        if (job.attempts == 0) continue;
        const auto file = std::filesystem::path(job.spec.output) / "metrics.jsonl";
        Trial& trial =
            sweep.started.try_emplace(id, Trial{Cursor(file, sweep.halving.metric, sweep.rungs)})
                .first->second;
        if (!trial.finished) work.push_back({first, id, trial.cursor, over});
    }
    return left;
}

void Watch::look() {
    std::vector<Work> work;
    for (auto at = sweeps_.begin(); at != sweeps_.end();)
        at = add_work(at->first, at->second, work) ? std::next(at) : sweeps_.erase(at);
    waiting_ = false;
    if (sweeps_.empty()) return;
    waiting_ = true;
    std::thread([home = home_, work = std::move(work)]() mutable {
        for (Work& one : work) one.at_end = one.cursor.read_on();
        const std::lock_guard lock(home->mutex);
        if (home->watch == nullptr) return;
        boost::asio::post(*home->io, [home, work = std::move(work)]() mutable {
            if (home->watch != nullptr) home->watch->take(std::move(work));
        });
    }).detach();
}

void Watch::take(std::vector<Work> done) {
    for (Work& one : done) {
        const auto sweep = sweeps_.find(one.sweep);
        if (sweep == sweeps_.end()) continue;
        Trial& trial = sweep->second.started.at(one.job);
        trial.cursor = std::move(one.cursor);
        trial.finished = one.over && one.at_end;
    }
    std::vector<Loser> losers;
    for (const auto& [first, sweep] : sweeps_) judge(first, sweep, losers);
    wait();
    if (!losers.empty()) stop_(std::move(losers));
}

// Adds to `losers` the trials of the sweep that have not ended and cannot be among the best.
void Watch::judge(JobId first, const Sweep& sweep, std::vector<Loser>& losers) const {
    std::vector<spec::RungValues> values(sweep.trials);
    std::vector<JobId> jobs(sweep.trials);
    for (const auto& [id, trial] : sweep.started) {
        // The tasks of an array have consecutive ids.
        const std::size_t number = id.value - first.value;
        if (number >= sweep.trials) continue;
        values[number] = trial.cursor.values();
        jobs[number] = id;
    }
    for (const spec::Stop& stop : spec::losers(sweep.halving, sweep.rungs, values)) {
        const auto job = state_.jobs.find(jobs[stop.trial]);
        if (job == state_.jobs.end() || core::is_over(job->second.phase)) continue;
        if (job->second.cancel_requested) continue;
        losers.push_back({job->first, spec::reason_text(sweep.halving, stop)});
    }
}

}  // namespace roll::sweeps
