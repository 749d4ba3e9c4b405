#include "tests/sim/copies.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

namespace roll::sim {

using agent::ExitStatus;

constexpr int kSigKill = 9;
constexpr int kSigTerm = 15;

Copy CopyRules::start(const agent::Start& start, Instant now) const {
    Copy copy{.order = start.order, .killed_at = start.killed_at};
    copy.exited.resize(static_cast<std::size_t>(agent::programs_of(start.order)));
    plan(copy, now);
    return copy;
}

void CopyRules::plan(Copy& copy, Instant now) const {
    copy.up_at = now + std::chrono::seconds(random_.between(0, 3));
    copy.end_at = copy.up_at + std::chrono::seconds(random_.between(0, 40));
    const auto& checkpoints = copy.order.checkpoints;
    if (!checkpoints.empty()) copy.step = checkpoints.front().step;
    // The newest checkpoint cannot be read: start from the previous one.
    if (faults_ && checkpoints.size() > 1 && random_.percent(20)) copy.step = checkpoints[1].step;
    if (!faults_) return;
    const int fate = random_.between(1, 100);
    if (fate <= 12) copy.planned = {false, 1};
    if (fate > 12 && fate <= 20) copy.planned = {true, kSigKill};
    if (fate > 20 && fate <= 26) copy.planned = {false, protocol::kExitRefused};
    if (fate > 26 && fate <= 40) copy.planned = {false, protocol::kExitYielded};
    if (fate > 40 && fate <= 42) copy.planned = {false, protocol::kExitInvalid};
    copy.hangs = fate > 42 && fate <= 50 && copy.trains() && copy.order.hang_after_seconds > 0;
    copy.unfit = fate > 50 && fate <= 52;
    if (fate > 95) copy.end_at = now + std::chrono::seconds(400);  // longer than any time limit
}

void CopyRules::exit_one(Copy& copy, int rank, ExitStatus status) const {
    if (copy.exited[static_cast<std::size_t>(rank)]) return;
    copy.exited[static_cast<std::size_t>(rank)] = true;
    copy.said.push_back(agent::Exited{copy.key(), rank, status});
}

void CopyRules::exit_all(Copy& copy, ExitStatus status) const {
    for (int rank = 0; rank < std::ssize(copy.exited); ++rank) exit_one(copy, rank, status);
}

// Reports that no process is left. After a failure, first reports which patterns the logs matched.
void CopyRules::bury(Copy& copy) const {
    copy.gone = true;
    std::vector<int> matched;
    for (int pattern = 0; copy.planned.shell_code() != 0 && pattern < 3; ++pattern) {
        if (random_.percent(20)) matched.push_back(pattern);
    }
    if (copy.up && random_.percent(70))
        copy.said.push_back(agent::Used{copy.key(),
                                        {.cpu_ms = random_.between(0, 90'000),
                                         .memory_peak = random_.between(1, 6) * kGibibyte,
                                         .wall_ms = random_.between(1, 90'000),
                                         .disk_written = random_.between(0, 9) * kGibibyte}});
    if (!matched.empty()) copy.said.push_back(agent::Matched{copy.key(), matched});
    copy.said.push_back(agent::Gone{copy.key()});
}

void CopyRules::kill(Copy& copy, Instant now) const {
    if (!copy.dies_at) copy.dies_at = now + std::chrono::seconds(random_.between(0, 2));
}

void CopyRules::terminate(Copy& copy) const {
    if (!copy.stop_saves) copy.stop_saves = false;
}

void CopyRules::tell(Copy& copy, const protocol::Command& command) const {
    if (const auto* stop = std::get_if<protocol::StopAtStep>(&command)) {
        copy.stop_saves = stop->checkpoint;
    } else if (const auto* save = std::get_if<protocol::SaveNow>(&command)) {
        copy.asked = save->asked;
    } else if (const auto* asked = std::get_if<protocol::Asked>(&command)) {
        copy.requests.push_back(asked->request);
    } else {
        copy.recorded.push_back(std::get<protocol::RecordedStep>(command).step);
        copy.newest_recorded = std::max(copy.newest_recorded, copy.recorded.back());
    }
}

void CopyRules::step(Copy& copy, int rank) const {
    copy.said.push_back(
        agent::Reported{copy.key(), rank, protocol::StepDone{copy.step, 1'000'000, 5}});
}

void CopyRules::save(Copy& copy) const {
    if (!copy.trains() || copy.order.node_rank != 0) return;
    if (copy.step >= 400 && copy.asked == 0) return;  // beyond this step, save only on request
    copy.step += 10;
    const std::string name = fmt::format("{}/checkpoints/.step-{:08}.{}", copy.order.output,
                                         copy.step, to_string(copy.key().token));
    copy.said.push_back(agent::Reported{
        copy.key(), 0,
        protocol::CheckpointStaged{copy.step, name, std::exchange(copy.asked, 0),
                                   random_.percent(50) ? random_.between(1, 9000) : 0}});
    if (copy.recorded.size() <= 2) return;  // keep two recorded checkpoints
    copy.said.push_back(agent::Reported{
        copy.key(), 0, protocol::CheckpointPruned{copy.recorded.front(), copy.key().token}});
    copy.recorded.erase(copy.recorded.begin());
}

// Answers the oldest request. Only the first rank of the first node answers.
void CopyRules::answer(Copy& copy) const {
    if (copy.order.node_rank != 0) return;
    const TrainingRequest request = copy.requests.front();
    copy.requests.erase(copy.requests.begin());
    const std::int64_t stop = request.kind == RequestKind::StopAtStep ? request.value : 0;
    copy.said.push_back(agent::Reported{
        copy.key(), 0, protocol::Answered{{request.number, copy.step, stop, "done"}}});
}

void CopyRules::live(Copy& copy, bool peer_failed, Instant now) const {
    if (copy.gone) return;
    if (now >= copy.killed_at && !copy.dies_at) {
        copy.said.push_back(agent::LeashRanOut{copy.key()});
        kill(copy, now);
    }
    if (copy.dies_at && now >= *copy.dies_at) exit_all(copy, {true, kSigKill});
    if (!copy.dies_at) work(copy, peer_failed, now);
    if (std::ranges::find(copy.exited, false) == copy.exited.end()) bury(copy);
}

void CopyRules::work(Copy& copy, bool peer_failed, Instant now) const {
    if (copy.unfit) {
        copy.said.push_back(
            agent::StartFailed{copy.key(), {Outcome::Infra, protocol::kExitUnhealthy, "no GPU"}});
        return exit_all(copy, {false, 1});
    }
    if (copy.stop_saves && random_.percent(60)) {
        const bool saves = copy.trains() && *copy.stop_saves && copy.up;
        if (saves) save(copy);
        return exit_all(
            copy, saves ? ExitStatus{false, protocol::kExitYielded} : ExitStatus{true, kSigTerm});
    }
    if (!copy.up && now >= copy.up_at) {
        copy.up = true;
        for (int rank = 0; rank < std::ssize(copy.exited); ++rank)
            copy.said.push_back(agent::Reported{copy.key(), rank, protocol::Ready{}});
        if (copy.hangs) step(copy, 0);
    }
    if (!copy.up || (copy.hangs && now >= copy.end_at)) return;
    if (copy.trains() && random_.percent(30))
        step(copy, random_.between(0, static_cast<int>(copy.exited.size()) - 1));
    if (random_.percent(10) || copy.asked > 0) save(copy);
    if (!copy.requests.empty() && random_.percent(50)) answer(copy);
    if (peer_failed) {  // a rank without its peer exits, or hangs in a collective operation
        if (random_.percent(20)) exit_all(copy, {false, protocol::kExitPeerLost});
        return;
    }
    if (now < copy.end_at) return;
    const bool well = copy.planned == ExitStatus{};
    if (well || copy.planned.number == protocol::kExitYielded) save(copy);
    if (copy.order.kind == "convert" && well)
        copy.said.push_back(
            agent::Reported{copy.key(), 0, protocol::ExportDone{copy.order.output + "/export/hf"}});
    if (well || copy.planned.number == protocol::kExitYielded) return exit_all(copy, copy.planned);
    exit_one(copy, random_.between(0, static_cast<int>(copy.exited.size()) - 1), copy.planned);
    copy.end_at = Instant::max();  // the other ranks run until they are killed
}

}  // namespace roll::sim
