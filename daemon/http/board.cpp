#include "daemon/http/board.hpp"

#include <algorithm>

namespace roll::http {

Board::Kept Board::put_question(const std::string& op, const Json& args) {
    ROLL_TRY(Json reply, ask_(op, args));
    auto answer = std::make_shared<Answer>();
    answer->text = dump(reply) + "\n";
    answer->json = std::move(reply);
    return std::shared_ptr<const Answer>(std::move(answer));
}

// Returns the answer stored under `key` if it is at most kFresh old, else nullptr. Requires that
// the caller holds mutex_.
const Board::Kept* Board::fresh(const std::string& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || now_() - found->second.at > kFresh) return nullptr;
    return &found->second.answer;
}

void Board::keep(const std::string& key, const Kept& answer) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= kAnswersMax)
        std::erase_if(entries_, [&](const auto& one) { return now_() - one.second.at > kFresh; });
    if (entries_.size() >= kAnswersMax)
        entries_.erase(
            std::ranges::min_element(entries_, {}, [](const auto& one) { return one.second.at; }));
    entries_.insert_or_assign(key, Entry{answer, now_()});
}

Result<std::shared_ptr<const Answer>> Board::look(const std::string& op, const Json& args) {
    const std::string key = op + ' ' + dump(args);
    const auto kept = [&]() -> std::optional<Kept> {
        const std::lock_guard lock(mutex_);
        const Kept* found = fresh(key);
        return found == nullptr ? std::nullopt : std::optional(*found);
    };
    if (auto found = kept()) return *std::move(found);
    const std::lock_guard asking(lane_of(key));
    // Another thread may have stored the answer while this thread waited for the mutex of
    // lane_of().
    if (auto found = kept()) return *std::move(found);
    Kept answer = put_question(op, args);
    keep(key, answer);
    return answer;
}

Result<std::shared_ptr<const Answer>> Board::change(const std::string& op, const Json& args) {
    const std::lock_guard asking(lane_of(op + ' ' + dump(args)));
    Kept answer = put_question(op, args);
    const std::lock_guard lock(mutex_);
    entries_.clear();
    return answer;
}

}  // namespace roll::http
