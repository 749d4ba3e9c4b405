// A test fixture that holds an AgentCore and plays the rolld that it talks to.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "worker/agent/core/agent_core.hpp"

namespace roll::agent {

using protocol::Answer;
using std::chrono::hours;
using std::chrono::seconds;

inline const AttemptKey kKey{.job = {7}, .token = {1, 1}};
inline const AttemptKey kNext{.job = {7}, .token = {1, 2}};

inline protocol::StartOrder order(const AttemptKey& key, int ranks = 2,
                                  std::string kind = "train") {
    protocol::StartOrder order;
    order.attempt = key;
    order.kind = std::move(kind);
    order.output = "/out";
    order.ranks_per_node = ranks;
    return order;
}

// A worker whose clock only pass() moves.
class AgentCoreTest : public testing::Test {
  protected:
    // Exchanges a heartbeat of the worker and an answer of rolld, which has these orders.
    void exchange(Answer answer) {
        beat();
        answer.sequence = last_.sequence;
        deliver(std::move(answer));
    }
    void beat() { last_ = core_.heartbeat(now_); }
    void deliver(Answer answer) {
        if (answer.incarnation == 0) answer.incarnation = 1;
        answer.counter = counter_;
        answer.beacon = "/beacon";
        core_.on_answer(answer, now_);
        collect();
    }
    void keep() { exchange({.keep = {kKey}}); }
    void collect() {
        for (Effect& effect : core_.take_effects()) effects_.push_back(std::move(effect));
    }
    void pass(Instant time) {
        now_ += time;
        core_.on_clock(now_);
        collect();
    }
    void look(std::uint64_t incarnation, std::uint64_t counter) {
        core_.on_look({incarnation, counter, now_, now_}, now_);
        collect();
    }
    void report(int rank, const protocol::Report& report) {
        core_.on_report(kKey, rank, report, now_);
        collect();
    }
    void exit(int rank, ExitStatus status) {
        core_.on_exit(kKey, rank, status, now_);
        collect();
    }
    void gone() {
        core_.on_gone(kKey, now_);
        collect();
    }
    void run(int ranks = 2, const char* kind = "train") {
        exchange({.start = {order(kKey, ranks, kind)}});
        for (int rank = 0; rank < ranks; ++rank) report(rank, protocol::Ready{});
        effects_.clear();
    }
    template <class T>
    int count() const {
        return static_cast<int>(std::ranges::count_if(
            effects_, [](const Effect& effect) { return std::holds_alternative<T>(effect); }));
    }
    template <class T>
    const T& first() const {
        for (const Effect& effect : effects_)
            if (const T* found = std::get_if<T>(&effect)) return *found;
        throw std::runtime_error("no such effect");
    }
    // Returns whether the next heartbeat lists the attempt.
    bool lists(const AttemptKey& key = kKey) {
        beat();
        return std::ranges::find(last_.running, key, &protocol::RunningAttempt::attempt) !=
               last_.running.end();
    }
    // Requires that the next heartbeat lists the attempt.
    protocol::RunningAttempt entry(const AttemptKey& key = kKey) {
        beat();
        for (const auto& running : last_.running)
            if (running.attempt == key) return running;
        throw std::runtime_error("the heartbeat does not list the attempt");
    }

    Instant now_ = seconds(1000);
    std::uint64_t counter_ = 50;
    protocol::Heartbeat last_;
    std::vector<Effect> effects_;
    AgentCore core_{{.session = "s", .node = "n", .slots = 2}, LeaseRules{}, StopRules{}};
};

}  // namespace roll::agent
