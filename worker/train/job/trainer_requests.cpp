// Requests to the running training: the ranks vote on them, and carry them out between two steps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "worker/train/job/trainer.hpp"
#include "worker/train/job/transfer_files.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Indices of the numbers of a ballot. The ballots of all ranks are added up, and the sums decide.
enum Vote : std::int64_t {
    Stops,
    StopsUnsaved,
    Saves,
    FindsPeak,
    PartDone,
    PartFailed,
    HookFailed,
    RequestNumber,
    RequestOfKind,
    RequestValue,
    kVotes
};

// Time for which a rank waits for the texts of the other ranks that wait for the same transfer.
constexpr std::chrono::milliseconds kTextsAwaited{1'000};

}  // namespace

// Returns this rank's votes for the requests (stop, checkpoint, ...) that it has received. `step`:
// the step after which count() decides.
std::vector<double> Trainer::ballot(std::int64_t step) {
    const Heard heard = link_.poll();
    take_recorded(heard.recorded);
    if (saver_) saver_->poll();
    if (exports_) exports_->poll();
    if (saver_) saver_->ask(heard.save);
    if (writes())
        steering_.waiting.insert(steering_.waiting.end(), heard.requests.begin(),
                                 heard.requests.end());
    std::vector<double> votes(kVotes, 0);
    if (heard.stop) votes[Stops] = 1;
    if (heard.stop && !heard.checkpoint) votes[StopsUnsaved] = 1;
    // Rank 0 alone votes for a checkpoint, because the ranks receive the request at different
    // steps. If a checkpoint of this step is already saved, it was started before the request and
    // does not answer the request. In that case, rank 0 votes at the next step.
    const bool asked = saver_ && saver_->is_asked() && saver_->last_step() != step;
    if (asked || (saver_ && saver_->is_due_again())) votes[Saves] = 1;
    if (std::exchange(pace_.peak_beaten, false)) votes[FindsPeak] = 1;
    const bool part_done = part_->is_running() && part_->is_done();
    if (part_done) votes[PartDone] = 1;
    if (part_done && part_->has_failed()) votes[PartFailed] = 1;
    hooks_.check();
    if (!hooks_.failure().empty()) votes[HookFailed] = 1;
    // Rank 0 proposes one request at a time. The other ranks send zeros, so the sum over the ranks
    // is rank 0's proposal.
    if (writes() && !steering_.waiting.empty()) {
        const TrainingRequest& next = steering_.waiting.front();
        votes[RequestNumber] = static_cast<double>(next.number);
        votes[RequestOfKind] = static_cast<double>(next.kind);
        votes[RequestValue] = static_cast<double>(next.value);
        steering_.waiting.pop_front();
    }
    return votes;
}

// Decides from the ballots of all ranks, which are the last columns of `all_RN`. All ranks get the
// same result, so that all ranks act on a request at the same step.
Agreed Trainer::count(const at::Tensor& all_RN) {
    const at::Tensor sums = all_RN.slice(1, all_RN.size(1) - kVotes).sum(0);
    const auto number = [&](Vote vote) { return std::llround(sums[vote].item<double>()); };
    const auto voted = [&](Vote vote) { return number(vote) > 0; };
    if (number(PartDone) == world_->size()) conclude_parts(voted(PartFailed));
    Agreed agreed{voted(Stops), !voted(StopsUnsaved), voted(Saves), voted(FindsPeak),
                  voted(HookFailed)};
    if (voted(RequestNumber))
        agreed.requests.push_back({static_cast<std::uint64_t>(number(RequestNumber)),
                                   static_cast<RequestKind>(number(RequestOfKind)),
                                   number(RequestValue)});
    return agreed;
}

// Agrees on the requests while no step runs.
Agreed Trainer::agree() {
    const at::Tensor own = at::tensor(ballot(state_.step), at::kDouble);
    return count(gather_over(*world_, own, {Site::Agreement}));
}

std::int64_t Trainer::last_step() const {
    return steering_.stop_step > 0 ? std::min(spec_.steps, steering_.stop_step) : spec_.steps;
}

void Trainer::carry_out(const std::vector<TrainingRequest>& requests) {
    for (const TrainingRequest& request : requests) {
        if (steering_.ended) {
            answer(request.number, "nothing changes: the training has ended");
            continue;
        }
        switch (request.kind) {
            case RequestKind::Evaluate: evaluate_now(request); break;
            case RequestKind::StopAtEpoch:
            case RequestKind::StopAtStep: stop_at(request); break;
            case RequestKind::LogEvery:
                steering_.log_every = request.value;
                answer(request.number,
                       "the log and the metrics get the last step and every step that is a "
                       "multiple of " +
                           std::to_string(request.value));
                break;
            case RequestKind::Profile:
                if (const auto& running = steering_.profile) {
                    answer(request.number,
                           "nothing changes: steps " + std::to_string(running->first) + " to " +
                               std::to_string(running->last) + " are being profiled");
                    break;
                }
                barrier(*world_);  // start the profile's clock on all ranks at the same time
                steering_.profile = Profile{request.number, state_.step + 1,
                                            state_.step + request.value, Clock::now()};
                clock_.record();
                break;
        }
    }
}

// Tells rolld that a request is done. `text`: one sentence for the user.
void Trainer::answer(std::uint64_t request, const std::string& text, std::int64_t stop_step) {
    if (!writes()) return;
    std::printf("request %llu at step %lld: %s\n", static_cast<unsigned long long>(request),
                static_cast<long long>(state_.step), text.c_str());
    std::fflush(stdout);
    link_.report(protocol::Answered{{request, state_.step, stop_step, text}});
}

// Measures all validation sets and tasks. The values do not count for the best checkpoint or for an
// early stop, because only evaluations at the regular intervals count.
void Trainer::evaluate_now(const TrainingRequest& request) {
    Moment now = moment();
    now.last = true;
    const auto results = measure(now);
    const bool whole = results && evaluate_tasks(/*last=*/false);
    judge_.forget();
    if (!whole) return answer(request.number, "the evaluation was ended, because the job stops");
    std::string text;
    for (const ValidResult& one : *results) {
        char loss[32];
        std::snprintf(loss, sizeof loss, " %.4f", one.loss);
        if (!text.empty()) text += ", ";
        text += "valid_loss";
        if (!one.name.empty()) text.append("/").append(one.name);
        text += loss;
    }
    if (!tasks_.empty())
        text.append(text.empty() ? "" : "; ").append("eval.json has the results of the tasks");
    if (text.empty()) text = "the job has no validation data and no tasks";
    answer(request.number, text);
}

// Ends the training at the step that the request names, or at the next step if that step is done.
void Trainer::stop_at(const TrainingRequest& request) {
    std::int64_t step = request.value;
    if (request.kind == RequestKind::StopAtEpoch) {
        if (!spec_.data.phases.empty() || spec_.data.order == spec::SampleOrder::Megatron)
            return answer(request.number,
                          "nothing changes: a job with data.weights, data.curriculum or data.order "
                          "megatron has no epochs; use stop-at-step");
        const auto samples = static_cast<std::int64_t>(sampler_.windows());
        const std::int64_t wanted = (state_.samples / samples + 1) * samples;
        step = state_.step + spec::steps_for(spec_.batch_sizes(), state_.samples, wanted);
    }
    steering_.stop_step = std::clamp(step, state_.step + 1, spec_.steps);
    answer(request.number,
           "the training ends after step " + std::to_string(steering_.stop_step) + " of " +
               std::to_string(spec_.steps),
           steering_.stop_step);
}

// Reports why a transfer does not end. If `why` is empty, the transfer has ended after all. Called
// on the recorder's thread.
//
// Each rank writes its recorded transfers to a file next to the logs. One rank also writes a table
// of the transfers of all ranks. The ranks publish their transfers through rank 0 or, if rank 0 is
// stopped, through files. The reason is reported before any file is written, because the file
// system may be the cause.
void Trainer::tell_stuck(const std::string& why) {
    link_.report(protocol::Failed{why});
    if (why.empty()) {
        std::fprintf(stderr, "the transfer that was stuck has finished\n");
        return;
    }
    const fs::path file =
        fs::path(launch_.logs) / ("transfers-rank-" + std::to_string(rank_) + ".tsv");
    const auto written = write_file_atomically(file, recorder_->table());
    const std::string where = written ? "; the transfers are in " + file.string() : "";
    if (written) link_.report(protocol::Failed{why + where});
    if (!written) std::fprintf(stderr, "%s\n", sentence_of(written.error()).c_str());
    if (const std::string all = recorder_->merged_table(); !all.empty()) {
        const auto merged = write_file_atomically(fs::path(launch_.logs) / "transfers.tsv", all);
        if (!merged) std::fprintf(stderr, "%s\n", sentence_of(merged.error()).c_str());
    } else if (recorder_->lacks_texts()) {
        const auto merged =
            merge_transfer_files(launch_.logs, rank_, recorder_->texts(), kTextsAwaited);
        if (!merged) std::fprintf(stderr, "%s\n", sentence_of(merged.error()).c_str());
    }
    std::fprintf(stderr, "stuck: %s%s; the latest transfers:\n%s", why.c_str(), where.c_str(),
                 recorder_->latest().c_str());
}

// Writes the profile that is being recorded, if there is one.
void Trainer::end_profile() {
    if (!steering_.profile) return;
    const Profile profile = *std::exchange(steering_.profile, std::nullopt);
    const std::string trace =
        phase_trace(*world_, profile.start, clock_.take_spans(), profile.steps);
    if (!writes()) return;
    const std::string steps =
        std::to_string(profile.first) + "-" + std::to_string(profile.steps.back().step);
    const fs::path file = fs::path(launch_.output) / ("profile-" + steps + ".json");
    const auto written = write_file_atomically(file, trace);
    answer(profile.request, written ? "the trace of steps " + steps + " is in " + file.string()
                                    : sentence_of(written.error()));
}

}  // namespace roll::train
