// Adds the values of users' secrets to start orders. State has only the names of secrets; only
// start orders contain the values.
#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/spec/job/features.hpp"
#include "daemon/server/server.hpp"

namespace roll::server {

namespace {

// Returns why the worker's release is too old to run the job; empty if the release is new enough.
std::string lacks(const protocol::Heartbeat& worker, const spec::JobSpec& spec) {
    const auto older = [&](const std::string& what) {
        return fmt::format("the roll-worker of {} is of an older release, which {}", worker.node,
                           what);
    };
    if (!spec.secrets.empty() && worker.version < protocol::kSecretsVersion)
        return older("cannot receive secrets");
    for (const std::string& feature : spec.needs) {
        if (std::ranges::find(worker.features, feature) != worker.features.end()) continue;
        if (feature == spec::kContainer)
            return fmt::format(
                "node {} reports no container runtime; install podman, apptainer or enroot in the "
                "PATH of its roll-worker, update a roll-worker that is older than rolld, and "
                "restart roll-worker",
                worker.node);
        return older(fmt::format(
            "lacks the feature {} that the job needs; update Roll on the node to rolld's release",
            feature));
    }
    return "";
}

}  // namespace

// Adds the values of secrets to the worker's start orders. If the worker's release is too old for a
// job, removes the job's start order. The attempt then ends on this worker as an infra failure.
void Server::fill_secrets(const Session& session, WorkerId worker, protocol::Answer& answer) {
    std::erase_if(answer.start, [&](protocol::StartOrder& order) {
        const core::Job& job = engine_.state().jobs.at(order.attempt.job);
        for (const std::string& name : job.spec.secrets) {
            const auto value = secrets_.value({job.user, name});
            if (value)
                order.secrets[name] = *value;
            else
                order.refused = fmt::format("user {} no longer has a secret {}", job.user, name);
        }
        const std::string why = lacks(session.last, job.spec);
        if (why.empty()) return false;
        spdlog::warn("job {}: {}", order.attempt.job.value, why);
        add_later(core::MemberExited{worker, order.attempt, core::Outcome::Infra, 1, why, {}});
        return true;
    });
}

}  // namespace roll::server
