#include "daemon/gateway/beacon_writer.hpp"

#include <ctime>

namespace roll::gateway {
namespace {

// Maximum age of the last read of the file. Each tick reads the file, so the age is usually at most
// a second.
constexpr std::chrono::seconds kOld{3};
constexpr std::chrono::seconds kPatience{2};

// Returns the time of CLOCK_BOOTTIME, which keeps running while the machine is suspended.
std::chrono::nanoseconds since_boot() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

BeaconWriter::BeaconWriter(std::filesystem::path path, io::Beacon first,
                           std::chrono::milliseconds spacing)
    : path_(std::move(path)),
      record_(std::move(first)),
      spacing_(spacing),
      looked_at_(since_boot()),
      read_at_(looked_at_) {
    gone_ = path_.empty();
    if (!gone_) thread_ = std::thread([this] { write_beats(); });
}

BeaconWriter::~BeaconWriter() {
    end(std::chrono::milliseconds(0));
    if (thread_.joinable()) thread_.join();
}

bool BeaconWriter::end(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.notify_one();
    return looked_.wait_for(lock, patience, [this] { return gone_; });
}

void BeaconWriter::beat() {
    {
        const std::scoped_lock lock(mutex_);
        const bool busy = wanted_ && !path_.empty();
        if (busy || Clock::now() - written_at_ < spacing_) return;
        wanted_ = true;
        if (path_.empty()) {
            written_at_ = Clock::now();
            ++published_;
        }
    }
    changed_.notify_one();
}

std::chrono::milliseconds BeaconWriter::until_due() const {
    const std::scoped_lock lock(mutex_);
    const auto left = written_at_ + spacing_ - Clock::now();
    const bool counting = !(wanted_ && !path_.empty()) && left > Clock::duration::zero();
    return counting ? std::chrono::ceil<std::chrono::milliseconds>(left) : spacing_;
}

void BeaconWriter::look_again() {
    std::unique_lock lock(mutex_);
    const auto fresh = [this] { return since_boot() - looked_at_ < kOld; };
    if (path_.empty() || fresh() || volume_hangs_) return;
    look_wanted_ = true;
    changed_.notify_one();
    volume_hangs_ = !looked_.wait_for(lock, kPatience, fresh);
}

std::chrono::nanoseconds BeaconWriter::unread_for() const {
    const std::scoped_lock lock(mutex_);
    return path_.empty() ? std::chrono::nanoseconds(0) : since_boot() - read_at_;
}

void BeaconWriter::look() {
    const auto began = since_boot();
    const auto there = io::read_beacon(path_);
    if (there && there->cluster == record_.cluster && there->incarnation > record_.incarnation)
        superseded_ = true;
    const std::scoped_lock lock(mutex_);
    looked_at_ = began;
    if (there || there.error().code == ErrorCode::NotFound) read_at_ = began;
    volume_hangs_ = false;
    looked_.notify_one();
}

// Writes a tick, and counts it as published if the whole record was written. While writes fail, the
// workers see no new tick and cannot renew their leases. rolld publishes no tick either, so it does
// not count this time as silence of the workers.
void BeaconWriter::write(const io::Beacon& record) {
    look();
    if (superseded_ || !io::write_beacon(path_, record)) return;
    record_ = record;
    published_ = record.counter;
}

void BeaconWriter::write_beats() {
    bool first = true;
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return wanted_ || look_wanted_ || ended_; });
        if (ended_) break;
        const bool beats = wanted_;
        look_wanted_ = false;
        lock.unlock();
        io::Beacon next = record_;
        if (!first) ++next.counter;
        beats ? write(next) : look();
        first = first && !beats;
        lock.lock();
        if (!beats) continue;
        wanted_ = false;
        written_at_ = Clock::now();
    }
    gone_ = true;
    looked_.notify_one();
}

}  // namespace roll::gateway
