#include "daemon/gateway/beacon_writer.hpp"

namespace roll::gateway {

BeaconWriter::BeaconWriter(std::filesystem::path path, io::Beacon first)
    : path_(std::move(path)),
      record_(std::move(first)) {
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
    if (path_.empty()) {
        ++published_;
        return;
    }
    {
        const std::scoped_lock lock(mutex_);
        wanted_ = true;
    }
    changed_.notify_one();
}

// A beat that cannot be written is not published: workers then see a rolld that stands still, and
// rolld counts no silence.
void BeaconWriter::write_beats() {
    static_cast<void>(io::write_beacon(path_, record_));
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return wanted_ || ended_; });
        if (ended_) return;
        wanted_ = false;
        lock.unlock();
        io::Beacon next = record_;
        ++next.counter;
        if (io::write_beacon(path_, next)) {
            record_ = next;
            published_ = next.counter;
        }
        lock.lock();
    }
}

}  // namespace roll::gateway
