#include "daemon/core/facts/exit_policy.hpp"

#include <algorithm>

namespace roll::core {
namespace {

// Returns the user's rules that match an app or infra failure. The rule for the exit code comes
// first.
std::vector<const spec::Meaning*> all_meanings(const Job& job, Outcome outcome) {
    std::vector<const spec::Meaning*> all;
    const spec::Retry& retry = job.spec.retry;
    const auto code = retry.on_exit.find(job.attempt->exit_code);
    if (outcome == Outcome::App && code != retry.on_exit.end()) all.push_back(&code->second);
    if (outcome != Outcome::App && outcome != Outcome::Infra) return all;
    for (const int i : job.attempt->matched) {
        if (i >= 0 && i < std::ssize(retry.on_log))
            all.push_back(&retry.on_log[static_cast<std::size_t>(i)].meaning);
    }
    return all;
}

int strictness(spec::OnExit what) {
    switch (what) {
        case spec::OnExit::Stop: return 2;
        case spec::OnExit::AvoidNode: return 1;
        case spec::OnExit::Retry: return 0;
    }
    return 0;
}

}  // namespace

std::optional<spec::OnExit> exit_policy_of(const Job& job, Outcome outcome) {
    std::optional<spec::OnExit> strictest;
    for (const spec::Meaning* meaning : all_meanings(job, outcome)) {
        if (!meaning->then) continue;
        if (!strictest || strictness(*meaning->then) > strictness(*strictest))
            strictest = meaning->then;
    }
    return strictest;
}

std::set<std::string> labels_of(const Job& job, Outcome outcome) {
    std::set<std::string> labels;
    for (const spec::Meaning* meaning : all_meanings(job, outcome)) {
        if (!meaning->label.empty()) labels.insert(meaning->label);
    }
    return labels;
}

std::string stopping_pattern(const Job& job, Outcome outcome) {
    if (outcome != Outcome::App && outcome != Outcome::Infra) return {};
    for (const int i : job.attempt->matched) {
        if (i < 0 || i >= std::ssize(job.spec.retry.on_log)) continue;
        const spec::OnLog& one = job.spec.retry.on_log[static_cast<std::size_t>(i)];
        if (one.meaning.then == spec::OnExit::Stop) return one.match;
    }
    return {};
}

int stalled_after(const Job& job, Outcome outcome) {
    const std::int64_t newest = job.checkpoints.empty() ? 0 : job.checkpoints.back().step;
    if (!job.spec.trains() || newest > job.best_step) return 0;
    const bool bad = outcome == Outcome::Infra || outcome == Outcome::App;
    return job.stalled + (bad ? 1 : 0);
}

}  // namespace roll::core
