#include "worker/convert/write/parts.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/json.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kNotes = ".roll-parts";
constexpr std::chrono::milliseconds kBetween(200);
constexpr std::chrono::seconds kSilence(60);
constexpr std::chrono::minutes kUntilBegun(5);

struct Note {
    std::string run;
    std::uint64_t beat = 0;
    int phase = 0;
    std::int64_t bytes = 0;
    std::string failed;
};

// The newest note (small progress file) of another process, and the time at which this process
// first read it.
struct Heard {
    Note note;
    Clock::time_point at = Clock::now();
};

fs::path note_of(const fs::path& staging, int index) {
    return staging / kNotes / std::to_string(index);
}

Result<void> write_note(const fs::path& path, const Note& note) {
    return write_file_atomically(path, Json{{"run", note.run},
                                            {"beat", note.beat},
                                            {"phase", note.phase},
                                            {"bytes", note.bytes},
                                            {"failed", note.failed}}
                                           .dump());
}

// Reads another process's note; nullopt if the file is missing or belongs to another run.
std::optional<Note> read_note(const fs::path& path, const std::string& run) {
    const auto text = read_file(path);
    if (!text) return std::nullopt;
    const Json json = Json::parse(*text, nullptr, false);
    if (!json.is_object() || json.value("run", "") != run) return std::nullopt;
    return Note{run, json.value("beat", std::uint64_t{0}), json.value("phase", 0),
                json.value("bytes", std::int64_t{0}), json.value("failed", "")};
}

Result<void> wait_for_begin(const fs::path& staging, const Part& part,
                            const Meeting::Stopped& stopped) {
    const Clock::time_point until = Clock::now() + kUntilBegun;
    while (!read_note(note_of(staging, 0), part.run)) {
        if (stopped()) return fail(ErrorCode::Unavailable, "the conversion was stopped");
        if (Clock::now() > until)
            return fail(
                ErrorCode::Unavailable,
                fmt::format("part 0 of run {} did not start writing {} within five minutes",
                            part.run, staging.string()),
                "start all parts at about the same time, with the same target and the same --run");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
}

}  // namespace

std::vector<bool> own_files(const Plan& plan, const Part& part) {
    std::vector<std::int64_t> bytes(plan.files.size(), 0);
    for (const TargetTensor& tensor : plan.tensors)
        bytes[tensor.file] += tensor::byte_count(tensor.info.dtype, tensor.info.shape).value_or(0);
    std::vector<std::size_t> order(bytes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return bytes[i]; });
    std::vector<std::int64_t> load(static_cast<std::size_t>(part.count), 0);
    std::vector<bool> own(bytes.size(), false);
    for (const std::size_t file : order) {
        const auto least = std::ranges::min_element(load);
        *least += std::max<std::int64_t>(bytes[file], 1);
        own[file] = least - load.begin() == part.index;
    }
    return own;
}

// A thread that writes this process's note and reads the other processes' notes.
class Meeting::Speaker {
  public:
    Speaker(fs::path staging, Part part) : staging_(std::move(staging)), part_(std::move(part)) {
        note_.run = part_.run;
        const int first = part_.leads() ? 1 : 0, last = part_.leads() ? part_.count : 1;
        for (int other = first; other < last; ++other) heard_.push_back({other, {}});
        thread_ = std::jthread([this](const std::stop_token& stop) { talk(stop); });
    }

    void say(const std::function<void(Note&)>& what) {
        const std::lock_guard lock(mutex_);
        what(note_);
    }

    Result<void> trouble() const {
        const std::lock_guard lock(mutex_);
        if (!trouble_) return {};
        return tl::unexpected(*trouble_);
    }

    bool all_are_at(int phase) const {
        const std::lock_guard lock(mutex_);
        return std::ranges::all_of(
            heard_, [&](const auto& other) { return other.second.note.phase >= phase; });
    }

    std::int64_t bytes() const {
        const std::lock_guard lock(mutex_);
        std::int64_t sum = 0;
        for (const auto& [other, heard] : heard_) sum += heard.note.bytes;
        return sum;
    }

    // Waits until the other processes have stopped writing, but at most five seconds. Afterwards
    // the target's directory can be removed.
    void wait_for_the_others() {
        const auto have_ended = [&] {
            const std::lock_guard lock(mutex_);
            return std::ranges::all_of(heard_, [](const auto& other) {
                return other.second.note.beat == 0 || !other.second.note.failed.empty();
            });
        };
        const Clock::time_point until = Clock::now() + std::chrono::seconds(5);
        while (part_.leads() && !have_ended() && Clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }

    Result<void> end() {
        if (part_.leads()) thread_.request_stop();
        thread_.join();
        if (!part_.leads()) return {};
        std::error_code error;
        fs::remove_all(staging_ / kNotes, error);
        if (!error) return {};
        return fail(ErrorCode::Failed,
                    "cannot remove " + (staging_ / kNotes).string() + ": " + error.message());
    }

  private:
    void talk(const std::stop_token& stop) {
        std::mutex unused;
        std::condition_variable_any ended;
        std::unique_lock lock(unused);
        for (;;) {
            const bool last_word = speak();
            if (last_word && !part_.leads()) return;
            for (auto& [other, heard] : heard_) listen(other, heard);
            if (stop.stop_requested()) return;
            ended.wait_for(lock, stop, kBetween, [] { return false; });
        }
    }

    Note next_note() {
        const std::lock_guard lock(mutex_);
        ++note_.beat;
        return note_;
    }

    // Writes the note. Does not hold `mutex_` meanwhile, so that a slow disk never blocks the
    // working threads. Returns true if this note is the last one; process 0 may then remove the
    // files.
    bool speak() {
        const Note note = next_note();
        if (const auto written = write_note(note_of(staging_, part_.index), note); !written)
            note_trouble("part 0 has ended: " + written.error().message);
        return note.phase == static_cast<int>(Phase::Verified) || !note.failed.empty();
    }

    void listen(int other, Heard& heard) {
        const auto note = read_note(note_of(staging_, other), part_.run);
        const std::string name = fmt::format("part {} of {}", other, part_.count);
        {
            const std::lock_guard lock(mutex_);
            if (note && note->beat != heard.note.beat) heard = {*note, Clock::now()};
        }
        const bool ready = heard.note.phase == static_cast<int>(Phase::Verified);
        const auto patience = heard.note.beat > 0 ? Clock::duration(kSilence) : kUntilBegun;
        if (!heard.note.failed.empty())
            note_trouble(name + " has ended: " + heard.note.failed);
        else if (!ready && Clock::now() - heard.at > patience)
            note_trouble(name + " has stopped responding");
    }

    void note_trouble(std::string what) {
        const std::lock_guard lock(mutex_);
        if (!trouble_) trouble_ = Error{ErrorCode::Unavailable, std::move(what)};
    }

    fs::path staging_;
    Part part_;
    mutable std::mutex mutex_;
    Note note_;
    std::vector<std::pair<int, Heard>> heard_;
    std::optional<Error> trouble_;
    std::jthread thread_;  // declared last, because the thread uses the other members
};

Result<Meeting> Meeting::join(const fs::path& staging, const Part& part, const Stopped& stopped) {
    Meeting meeting;
    if (part.alone()) return meeting;
    ROLL_TRY_VOID(part.leads() ? make_directories(staging / kNotes)
                               : wait_for_begin(staging, part, stopped));
    meeting.speaker_ = std::make_shared<Speaker>(staging, part);
    return meeting;
}

void Meeting::say(Phase phase) {
    if (speaker_) speaker_->say([&](Note& note) { note.phase = static_cast<int>(phase); });
}

void Meeting::say(std::int64_t bytes) {
    if (speaker_) speaker_->say([&](Note& note) { note.bytes = bytes; });
}

void Meeting::leave(const std::string& why) {
    if (!speaker_) return;
    speaker_->say([&](Note& note) { note.failed = why; });
    speaker_->wait_for_the_others();
    static_cast<void>(speaker_->end());
}

Result<void> Meeting::wait_for(Phase phase, const Stopped& stopped) {
    if (!speaker_) return {};
    while (!speaker_->all_are_at(static_cast<int>(phase))) {
        ROLL_TRY_VOID(speaker_->trouble());
        if (stopped()) return fail(ErrorCode::Unavailable, "the conversion was stopped");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
}

Result<void> Meeting::trouble() const { return speaker_ ? speaker_->trouble() : Result<void>(); }

std::int64_t Meeting::bytes() const { return speaker_ ? speaker_->bytes() : 0; }

Result<void> Meeting::end() { return speaker_ ? speaker_->end() : Result<void>(); }

}  // namespace roll::convert
