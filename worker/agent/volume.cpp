#include "worker/agent/volume.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/io/beacon.hpp"
#include "worker/agent/process/clock.hpp"

namespace roll::agent {
namespace {

Looked look_at(const std::string& path) {
    const Instant began = boot_now();
    const auto beacon = io::read_beacon(path);
    if (!beacon) return {};
    return {Look{beacon->incarnation, beacon->counter, began, boot_now()}};
}

Published publish_now(const Publish& publish) {
    Published result{.attempt = publish.attempt, .step = publish.step, .done = {}};
    if (boot_now() < publish.before)
        result.done = rename_new(publish.from, publish.to);
    else
        result.done =
            fail(ErrorCode::Unavailable, "the lease ended before the checkpoint was published");
    return result;
}

}  // namespace

Volume::Volume() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    looks_.thread = std::thread([this] { serve(looks_); });
    renames_.thread = std::thread([this] { serve(renames_); });
}

Volume::~Volume() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    for (Lane* lane : {&looks_, &renames_}) {
        lane->ready.notify_all();
        lane->thread.join();
    }
}

void Volume::serve(Lane& lane) {
    std::unique_lock lock(mutex_);
    for (;;) {
        lane.ready.wait(lock, [&] { return ending_ || !lane.work.empty(); });
        if (ending_) return;
        const auto work = std::move(lane.work.front());
        lane.work.pop_front();
        lane.busy = true;
        lock.unlock();
        VolumeEvent event = work();
        lock.lock();
        lane.busy = false;
        events_.push_back(std::move(event));
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
    }
}

void Volume::submit(Lane& lane, std::function<VolumeEvent()> work) {
    lane.work.push_back(std::move(work));
    lane.ready.notify_all();
}

void Volume::look(const std::string& beacon) {
    const std::lock_guard lock(mutex_);
    if (!looks_.busy && looks_.work.empty()) submit(looks_, [beacon] { return look_at(beacon); });
}

void Volume::publish(const Publish& publish) {
    const std::lock_guard lock(mutex_);
    submit(renames_, [publish] { return publish_now(publish); });
}

std::vector<VolumeEvent> Volume::collect() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
}

}  // namespace roll::agent
