#include "tests/sim/stored_ledger.hpp"

#include <fstream>

#include <unistd.h>

#include "common/check.hpp"
#include "daemon/core/apply/apply.hpp"
#include "daemon/ledger/event_json.hpp"

namespace roll::sim {
namespace {

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path make_directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "roll-sim-XXXXXX").string();
    ROLL_CHECK(::mkdtemp(pattern.data()) != nullptr);
    return pattern;
}

// Returns whether the ledger has exactly these events. Needed because load() may use a snapshot,
// and then does not notice wrong events.
bool holds_what_was_written(const ledger::Ledger& ledger, std::span<const core::Event> events) {
    const auto rows = ledger.read(0, static_cast<int>(events.size()), std::nullopt);
    if (!rows || std::ssize(*rows) != ledger.newest()) return false;
    for (std::size_t i = 0; i < rows->size(); ++i) {
        const bool same = (*rows)[i].kind == ledger::kind_of(events[i]) &&
                          (*rows)[i].body == ledger::body_of(events[i]);
        if (!same) return false;
    }
    return true;
}

}  // namespace

core::State Written::after(std::int64_t count) const {
    core::State state;
    for (const core::Event& event : events.first(static_cast<std::size_t>(count)))
        core::apply(state, event);
    return state;
}

StoredLedger::StoredLedger(std::uint64_t seed) : disk_(seed), directory_(make_directory()) {}

StoredLedger::~StoredLedger() {
    ledger_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

bool StoredLedger::open(Random& random, const Written& written, bool faults) {
    for (int i = random.between(0, 3); faults && !disk_.is_full() && i > 0; --i)
        damage(random, written);
    const std::string mark = content_of(directory_ / "ledger.mark");
    auto opened = ledger::Ledger::open(directory_);
    if (!opened && disk_.is_full()) {
        ROLL_CHECK(opened.error().code == ErrorCode::Refused);
        return false;
    }
    ROLL_CHECK(opened);
    ledger_ = *std::move(opened);
    marks_ = {content_of(directory_ / "ledger.mark")};
    old_mark_ = old_mark_ && marks_.front() == mark;
    return true;
}

// Flips bits in the database or its WAL, or removes a page, and checks that the ledger refuses to
// open or has the right state. Then restores the files.
void StoredLedger::damage(Random& random, const Written& written) {
    const FakeDisk::Files whole = FakeDisk::copy(disk_.files());
    const std::string mark = content_of(directory_ / "ledger.mark");
    disk_.mount(FakeDisk::copy(whole));
    for (const auto& [name, file] : disk_.files()) {
        std::string& bytes = file->bytes;
        if (bytes.empty() || random.percent(40)) continue;
        const auto at =
            static_cast<std::size_t>(random.between(0, static_cast<int>(bytes.size()) - 1));
        if (random.percent(80)) {
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.between(0, 7)));
        } else {
            const std::size_t page = at / 4096 * 4096;
            const std::size_t size = std::min<std::size_t>(4096, bytes.size() - page);
            bytes.replace(page, size, size, '\0');
        }
        file->synced = bytes;
    }
    if (auto opened = ledger::Ledger::open(directory_)) {
        const auto state = opened->load();
        const bool all = opened->newest() >= std::ssize(written.events) - written.unsure;
        ROLL_CHECK(!state || ((all || old_mark_) && *state == written.after(opened->newest()) &&
                              holds_what_was_written(*opened, written.events)));
        damaged_ += !state;
    } else {
        ROLL_CHECK(opened.error().message.find("ledger.db") != std::string::npos);
        ++damaged_;
    }
    disk_.mount(whole);
    std::ofstream(directory_ / "ledger.mark", std::ios::binary) << mark;
}

Result<void> StoredLedger::append(std::span<const core::Event> events, Time at) {
    auto appended = ledger_->append(events, at);
    if (appended) old_mark_ = false;
    marks_.push_back(content_of(directory_ / "ledger.mark"));
    return appended;
}

void StoredLedger::close(const core::State& state) {
    ledger_->keep_snapshot(state, true);
    ledger_.reset();
}

// Kills rolld. The disk fails first, because the destructor of the ledger would otherwise clean up.
void StoredLedger::crash(Random& random, bool power_lost) {
    if (!ledger_) return;
    FakeDisk::Files left = disk_.after_crash(random, power_lost);
    disk_.break_after(0);
    ledger_.reset();
    disk_.break_after(std::nullopt);
    disk_.mount(std::move(left));
    if (!power_lost) return;
    age_mark(random);
    std::error_code none;
    const auto snapshot = directory_ / "ledger.snapshot";
    if (random.percent(50))
        std::filesystem::resize_file(snapshot, std::filesystem::file_size(snapshot, none) / 2,
                                     none);
}

// Replaces the mark by an older one or by none, because the mark is never synced.
void StoredLedger::age_mark(Random& random) {
    marks_.emplace(marks_.begin());
    const int newest = static_cast<int>(marks_.size()) - 1;
    const int which = random.percent(30) ? 0 : random.between(1, newest);
    old_mark_ = old_mark_ || which < newest;
    std::ofstream(directory_ / "ledger.mark", std::ios::binary)
        << marks_[static_cast<std::size_t>(which)];
}

}  // namespace roll::sim
