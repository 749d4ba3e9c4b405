#include "daemon/files/readers.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

namespace roll::files {

std::string volume_of(const std::string& path) {
    std::ifstream mounts("/proc/self/mounts");
    std::string volume = "/", device, point, rest;
    while (mounts >> device >> point && std::getline(mounts, rest)) {
        const bool is_below =
            path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
        if (is_below && point.size() > volume.size()) volume = point;
    }
    return volume;
}

// The state that the threads share. A thread that still runs keeps this object alive even after the
// Readers object is destroyed.
struct Readers::Home {
    struct Task {
        std::uint64_t id = 0;
        std::string volume;
        Read read;
    };
    std::mutex mutex;
    std::condition_variable changed;
    boost::asio::io_context* io = nullptr;
    Readers* readers = nullptr;  // nullptr once the readers are destroyed
    std::deque<Task> tasks{};
    std::size_t threads = 0, idle = 0;
    std::size_t threads_of_volume = 0;             // maximum number of threads for each volume
    std::map<std::string, std::size_t> reading{};  // number of threads that read each volume

    // Returns the first task whose volume is read by fewer than `threads_of_volume` threads;
    // tasks.end() if there is none.
    std::deque<Task>::iterator next_task() {
        return std::ranges::find_if(tasks, [&](const Task& task) {
            const auto known = reading.find(task.volume);
            return known == reading.end() || known->second < threads_of_volume;
        });
    }

    static void work(const std::shared_ptr<Home>& home) {
        std::unique_lock lock(home->mutex);
        while (home->readers != nullptr) {
            const auto next = home->next_task();
            if (next == home->tasks.end()) {
                ++home->idle;
                home->changed.wait(lock);
                --home->idle;
                continue;
            }
            const Task task = std::move(*next);
            home->tasks.erase(next);
            ++home->reading[task.volume];
            lock.unlock();
            Result<Json> result = task.read();
            lock.lock();
            if (--home->reading[task.volume] == 0) home->reading.erase(task.volume);
            if (home->readers == nullptr) return;
            boost::asio::post(*home->io, [home, id = task.id, result = std::move(result)] {
                if (home->readers != nullptr) home->readers->take(id, result);
            });
        }
    }
};

Readers::Readers(boost::asio::io_context& io, ReadersLimits limits)
    : limits_(limits),
      timer_(io),
      home_(std::make_shared<Home>()) {
    home_->io = &io;
    home_->readers = this;
    home_->threads_of_volume = limits_.threads_of_volume;
}

Readers::~Readers() {
    const std::lock_guard lock(home_->mutex);
    home_->readers = nullptr;
    home_->changed.notify_all();
}

void Readers::start(std::string what, Read read, Answer answer) {
    std::string volume = volume_of(what);
    const auto of_volume = static_cast<std::size_t>(std::ranges::count_if(
        waiting_, [&](const auto& item) { return item.second.volume == volume; }));
    if (waiting_.size() >= limits_.waiting || of_volume >= limits_.waiting_of_volume)
        return answer(fail(
            ErrorCode::Failed,
            fmt::format("{} was not read, because rolld is already reading {} files for clients, "
                        "{} of them on this volume; a volume may have stopped responding",
                        what, waiting_.size(), of_volume),
            "try again in a few seconds"));
    const std::uint64_t id = ++last_id_;
    waiting_.emplace(id, Waiting{std::move(what), volume, std::move(answer),
                                 std::chrono::steady_clock::now() + limits_.patience});
    if (waiting_.size() == 1) arm();
    const std::lock_guard lock(home_->mutex);
    home_->tasks.push_back({id, std::move(volume), std::move(read)});
    if (home_->idle < home_->tasks.size() && home_->threads < limits_.threads) {
        ++home_->threads;
        std::thread([home = home_] { Home::work(home); }).detach();
    }
    home_->changed.notify_one();
}

void Readers::take(std::uint64_t id, Result<Json> result) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;  // already answered, because it took too long
    const Answer answer = std::move(found->second.answer);
    waiting_.erase(found);
    if (waiting_.empty()) timer_.cancel();
    answer(std::move(result));
}

// Ends each read whose time limit has passed: answers it with an error.
void Readers::expire() {
    const auto now = std::chrono::steady_clock::now();
    while (!waiting_.empty() && waiting_.begin()->second.until <= now) {
        const std::uint64_t id = waiting_.begin()->first;
        {
            const std::lock_guard lock(home_->mutex);
            std::erase_if(home_->tasks, [&](const Home::Task& task) { return task.id == id; });
        }
        take(id, fail(ErrorCode::Failed,
                      fmt::format(
                          "{} was not read within {} ms; its volume may have stopped responding",
                          waiting_.begin()->second.what, limits_.patience.count()),
                      "check the volume on rolld's host, and try again"));
    }
    if (!waiting_.empty()) arm();
}

// Starts the timer for the time limit of the oldest read.
void Readers::arm() {
    timer_.expires_at(waiting_.begin()->second.until);
    timer_.async_wait([this](boost::system::error_code error) {
        if (!error && !waiting_.empty()) expire();
    });
}

}  // namespace roll::files
