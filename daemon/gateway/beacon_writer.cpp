#include "daemon/gateway/beacon_writer.hpp"

namespace roll::gateway {

BeaconWriter::BeaconWriter(std::filesystem::path path, io::Beacon first,
                           std::chrono::milliseconds spacing)
    : path_(std::move(path)),
      record_(std::move(first)),
      spacing_(spacing) {
    if (path_.empty()) return;
    thread_ = std::thread([this] { write_beats(); });
}

BeaconWriter::~BeaconWriter() {
    {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
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

// A beat that cannot be written is not published: workers then see a rolld that stands still, and
// rolld counts no silence. The counter moves on only with a record that is whole.
void BeaconWriter::write(const io::Beacon& record) {
    const auto there = io::read_beacon(path_);
    if (there && there->cluster == record.cluster && there->incarnation > record.incarnation) {
        superseded_ = true;
        return;
    }
    if (!io::write_beacon(path_, record)) return;
    record_ = record;
    published_ = record.counter;
}

void BeaconWriter::write_beats() {
    bool first = true;
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return wanted_ || ended_; });
        if (ended_) return;
        lock.unlock();
        io::Beacon next = record_;
        if (!first) ++next.counter;
        write(next);
        first = false;
        lock.lock();
        wanted_ = false;
        written_at_ = Clock::now();
    }
}

}  // namespace roll::gateway
