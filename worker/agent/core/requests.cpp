// Requests to a running training, and their answers.
#include <algorithm>

#include "worker/agent/core/agent_core.hpp"

namespace roll::agent {

void AgentCore::ask_to_save(const protocol::SaveOrder& order) {
    Attempt* const attempt = find(order.attempt);
    if (attempt == nullptr || attempt->gone || order.asked <= attempt->asked) return;
    attempt->asked = order.asked;
    effects_.push_back(Tell{order.attempt, protocol::SaveNow{order.asked}});
}

void AgentCore::pass_on(const protocol::TellOrder& order) {
    Attempt* const attempt = find(order.attempt);
    if (attempt == nullptr || attempt->gone || order.request.number <= attempt->requested) return;
    attempt->requested = order.request.number;
    effects_.push_back(Tell{order.attempt, protocol::Asked{order.request}});
}

// Keeps the answer until rolld has recorded it. Ignores an answer to an unknown request, because
// any program may write to the descriptor for reports.
void AgentCore::take_answer(Attempt& attempt, const RequestAnswer& answer) {
    const bool held = std::ranges::find(attempt.answers, answer.number, &RequestAnswer::number) !=
                      attempt.answers.end();
    if (answer.number > attempt.requested || held) return;
    attempt.answers.push_back(answer);
    effects_.push_back(Remember{entry_of(attempt)});
    effects_.push_back(HeartbeatNow{});
}

}  // namespace roll::agent
