#include "worker/train/comm/flight_recorder.hpp"

#include <algorithm>
#include <cstdio>

#include "common/json.hpp"
#include "worker/train/comm/merged_transfers.hpp"

namespace roll::train {
namespace {

using Clock = std::chrono::steady_clock;

// A rank counts as not responding if it publishes nothing during this number of periods.
constexpr std::int64_t kLookPeriods = 3;

// explain() blocks for at most this time plus ten publishing periods. Without a limit, it would
// block forever if the store does not respond.
constexpr std::chrono::seconds kExplainingMax{60};

// Returns the name of the sequence in which a transfer is numbered. All collectives of a group form
// one sequence. The messages with the same Site from one rank to another also form a sequence.
// `own` is this rank's number in the group.
std::string sequence_of(const Transfer& transfer, int own) {
    if (transfer.is_collective()) return "";
    const bool sends = transfer.kind == Transfer::Kind::Send;
    const int from = sends ? own : transfer.peer, to = sends ? transfer.peer : own;
    return std::to_string(from) + ">" + std::to_string(to) + " " +
           std::to_string(static_cast<int>(transfer.tag.site));
}

// Returns a description such as "all-reduce of gradients, bucket 3, 4096 bytes".
std::string words(const Flight& flight) {
    return text(Transfer{flight.kind, flight.tag, {}, {}}) + ", " + std::to_string(flight.bytes) +
           " bytes";
}

std::string with_number(const Flight& flight) {
    return "number " + std::to_string(flight.seq) + " of group " + flight.group + ", " +
           words(flight);
}

std::string key_of(int rank) { return "flights/" + std::to_string(rank); }

std::int64_t seconds(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

// Returns a clause for the explanation that says why rank `rank` does not take part in a transfer.
// Returns "" if the rank has issued the transfer and responds. `before` and `after` are two
// successive publications of the rank.
template <class Seen>
std::string fault(const Flight& flight, int rank, const Seen& before, const Seen& after) {
    const std::string name = "; rank " + std::to_string(rank);
    const bool responds = after.beat > before.beat;
    if (after.next > flight.seq) {
        if (!after.issued.empty() && after.issued != words(flight))
            return name + " issued " + after.issued + " under this number";
        return responds ? "" : name + " issued this transfer, but its process does not respond";
    }
    if (!responds) return name + " never issued this transfer, and its process does not respond";
    return name + " never issued this transfer, and waits for " +
           (after.waits.empty() ? "no transfer" : after.waits);
}

}  // namespace

FlightRecorder::FlightRecorder(Board board, RecorderOptions options)
    : board_(std::move(board)),
      options_(std::move(options)),
      thread_([this] { run(); }) {}

FlightRecorder::~FlightRecorder() {
    {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void FlightRecorder::join(const std::string& group, const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    groups_[group].ranks = ranks;
}

FlightRecorder::Id FlightRecorder::issued(const std::string& group, const Transfer& transfer) {
    const std::lock_guard lock(mutex_);
    Group& own = groups_.at(group);
    const auto place = std::ranges::find(own.ranks, options_.rank) - own.ranks.begin();
    Flight flight{.group = group,
                  .sequence = sequence_of(transfer, static_cast<int>(place)),
                  .kind = transfer.kind,
                  .tag = transfer.tag,
                  .peer = transfer.peer,
                  .bytes = transfer.payload().nbytes(),
                  .issued = Clock::now()};
    flight.seq = own.next[flight.sequence]++;
    // Mark a send as done immediately, because no rank waits for the end of a send.
    if (transfer.kind == Transfer::Kind::Send) flight.done = flight.issued;
    flights_.push_back(std::move(flight));
    if (flights_.size() > kKept) {
        flights_.pop_front();
        ++first_;
    }
    return first_ + std::ssize(flights_) - 1;
}

void FlightRecorder::waits(Id id) {
    const std::lock_guard lock(mutex_);
    waits_ = id;
    since_ = Clock::now();
}

void FlightRecorder::done(Id id) {
    const std::lock_guard lock(mutex_);
    waits_.reset();
    if (id >= first_) flights_[static_cast<std::size_t>(id - first_)].done = Clock::now();
}

bool FlightRecorder::is_patient() const {
    return !waits_ || *waits_ < first_ || Clock::now() - since_ < options_.patience;
}

// Returns the text that this rank publishes.
std::string FlightRecorder::text() const {
    Json json{{"beat", beat_},
              {"next", Json::object()},
              {"first", Json::object()},
              {"place", Json::object()},
              {"open", Json::array()},
              {"waits", waits_ && *waits_ >= first_ ? with_number(at(*waits_)) : ""}};
    for (const auto& [name, group] : groups_) {
        json["next"][name] = group.next;
        json["first"][name] = group.ranks.front();
        json["place"][name] = std::ranges::find(group.ranks, options_.rank) - group.ranks.begin();
    }
    for (const Flight& flight : flights_) {
        if (flight.done) continue;
        json["open"].push_back({{"group", flight.group},
                                {"sequence", flight.sequence},
                                {"seq", flight.seq},
                                {"words", words(flight)}});
        if (json["open"].size() == kListed) break;
    }
    return json.dump();
}

// Returns the other ranks that must take part in a transfer.
std::vector<int> FlightRecorder::others(const Flight& flight) const {
    std::vector<int> ranks = groups_.at(flight.group).ranks;
    if (flight.kind == Transfer::Kind::Receive)
        ranks = {ranks[static_cast<std::size_t>(flight.peer)]};
    std::erase(ranks, options_.rank);
    return ranks;
}

// Returns the latest publication of a rank about a transfer; nullopt if the board cannot be read.
std::optional<FlightRecorder::Seen> FlightRecorder::see(int rank, const Flight& flight) const {
    const std::optional<std::string> text = board_.get(key_of(rank));
    if (!text) return std::nullopt;
    const Result<Json> json = parse_json(*text);
    if (!json) return std::nullopt;
    const Json next = json->value("next", Json::object()).value(flight.group, Json::object());
    Seen seen{.next = next.value(flight.sequence, std::int64_t{0}),
              .beat = json->value("beat", std::int64_t{0}),
              .waits = json->value("waits", "")};
    for (const Json& open : json->value("open", Json::array()))
        if (open.value("group", "") == flight.group &&
            open.value("sequence", "") == flight.sequence &&
            open.value("seq", std::int64_t{0}) == flight.seq)
            seen.issued = open.value("words", "");
    return seen;
}

void FlightRecorder::run() {
    std::unique_lock lock(mutex_);
    do {
        ++beat_;
        const std::string published = text();
        lock.unlock();
        board_.set(key_of(options_.rank), published);
        keep_first();
        lock.lock();
        tick(lock);
    } while (!changed_.wait_for(lock, options_.period, [this] { return is_stopping_; }));
}

// Reads rank 0's text while rank 0 still responds, and keeps this text. Rank 0 serves the board, so
// nothing can be read from the board after rank 0 has stopped. A failed read takes long. Therefore,
// if a text is kept, the first failed read is the last one.
void FlightRecorder::keep_first() {
    if (!keeps_) return;
    if (auto text = board_.get(key_of(0)))
        kept_ = std::move(text);
    else
        keeps_ = !kept_;
}

// If a transfer has waited too long, reads the publications of the other ranks. After the second
// reading, explains why the transfer does not end.
void FlightRecorder::tick(std::unique_lock<std::mutex>& lock) {
    if (explained_ && explained_->first != waits_) {
        explained_.reset();
        lock.unlock();
        options_.on_stuck("");
        lock.lock();
    }
    if (is_patient()) return look_.reset();
    if (explained_) return;
    const Id open = *waits_;
    const auto since = since_;
    const bool is_first = !look_ || look_->id != open;
    if (!is_first && beat_ < look_->beat + kLookPeriods) return;
    const Flight flight = at(open);
    const std::vector<int> ranks = others(flight);
    lock.unlock();
    is_first_ = lacks_texts_ = false;
    Look look{open, 0, {}};
    for (const int rank : ranks) {
        look.ranks.push_back(see(rank, flight));
        if (!look.ranks.back()) break;
    }
    std::string found = with_number(flight) + ", has waited " +
                        std::to_string(seconds(Clock::now() - since)) + " s";
    if (!look.ranks.empty() && !look.ranks.back()) {
        found += "; rank 0, which serves the store, does not respond";
        lacks_texts_ = true;
    } else if (is_first) {
        lock.lock();
        look.beat = beat_;
        look_ = std::move(look);
        return;
    } else {
        std::string faults;
        is_first_ = true;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const Seen& after = *look.ranks[i];
            faults += fault(flight, ranks[i], *look_->ranks[i], after);
            const bool waits = after.next > flight.seq && after.beat > look_->ranks[i]->beat;
            if (waits && ranks[i] < options_.rank) is_first_ = false;
        }
        found += faults.empty() ? "; every rank has issued this transfer" : faults;
    }
    options_.on_stuck(found);
    lock.lock();
    explained_ = {open, found};
    changed_.notify_all();
}

std::string FlightRecorder::explain() {
    std::unique_lock lock(mutex_);
    if (is_patient()) return "";
    const bool known = changed_.wait_for(lock, kExplainingMax + 10 * options_.period,
                                         [this] { return explained_.has_value(); });
    return known ? explained_->second : "";
}

std::map<int, std::string> FlightRecorder::texts() const {
    std::map<int, std::string> published;
    if (kept_) published.emplace(0, *kept_);
    const std::lock_guard lock(mutex_);
    published.insert_or_assign(options_.rank, text());
    return published;
}

std::string FlightRecorder::merged_table() {
    if (!is_first_) return "";
    std::map<int, std::string> published = texts();
    for (int rank = 0; rank < options_.ranks; ++rank) {
        if (rank == options_.rank) continue;
        const std::optional<std::string> other = board_.get(key_of(rank));
        lacks_texts_ = !other;
        if (lacks_texts_) return "";
        published.insert_or_assign(rank, *other);
    }
    return merged_transfers(published);
}

std::string FlightRecorder::latest() {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    std::string lines;
    for (std::size_t i = flights_.size() - std::min(flights_.size(), kListed); i < flights_.size();
         ++i) {
        const Flight& flight = flights_[i];
        lines += "  " + with_number(flight) + ": issued " +
                 std::to_string(seconds(now - flight.issued)) + " s ago, " +
                 (flight.done ? "done" : "not done") + "\n";
    }
    return lines;
}

std::string FlightRecorder::table() {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto ago = [&](Clock::time_point then) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double>(now - then).count());
        return std::string(text);
    };
    std::string lines = "rank\tgroup\tsequence\tnumber\ttransfer\tissued_s_ago\tdone_s_ago\n";
    for (const Flight& flight : flights_) {
        lines += std::to_string(options_.rank) + "\t" + flight.group + "\t" + flight.sequence +
                 "\t" + std::to_string(flight.seq) + "\t" + words(flight) + "\t" +
                 ago(flight.issued) + "\t" + (flight.done ? ago(*flight.done) : "not done") + "\n";
    }
    return lines;
}

}  // namespace roll::train
