#include "worker/train/saver.hpp"

#include <algorithm>
#include <cstdio>

#include "worker/checkpoint/staging.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {

Saver::Saver(SaverOptions options, const ModelSetup& model, WorkerLink& link)
    : options_(std::move(options)),
      model_(model),
      link_(link) {
    const int swept = need(checkpoint::sweep(options_.checkpoints, options_.writer));
    if (swept > 0) std::printf("removed %d unfinished checkpoints of earlier attempts\n", swept);
}

void Saver::settle(const Result<std::string>& outcome) {
    if (!outcome) {
        throw RankFailure(status_of(outcome.error().code),
                          "the checkpoint of step " + std::to_string(last_step_) +
                              " could not be written: " + outcome.error().message);
    }
    std::printf("checkpoint of step %lld staged\n", static_cast<long long>(last_step_));
    const auto took = std::chrono::steady_clock::now() - begun_;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(took).count();
    link_.report(protocol::CheckpointStaged{last_step_, *outcome, asked_, ms});
}

void Saver::save(Snapshot snapshot, std::uint64_t asked) {
    finish();
    asked_ = asked;
    begun_ = std::chrono::steady_clock::now();
    last_step_ = snapshot.state.step;
    const checkpoint::Name name{last_step_, options_.writer};
    background_.start([this, name, snapshot = std::move(snapshot)]() -> Result<std::string> {
        const auto fill = [&](const std::filesystem::path& directory) {
            return write_snapshot(directory, snapshot, model_);
        };
        ROLL_TRY(const std::filesystem::path staged,
                 checkpoint::stage(options_.checkpoints, name, fill));
        return staged.string();
    });
}

void Saver::poll() {
    if (const auto outcome = background_.poll()) settle(*outcome);
}

void Saver::finish() {
    if (const auto outcome = background_.wait()) settle(*outcome);
}

void Saver::recorded(std::int64_t step) {
    const checkpoint::Kept ours{{step, options_.writer}, true};
    auto& all = options_.recorded;
    if (std::find(all.begin(), all.end(), ours) != all.end()) return;
    all.push_back(ours);
    if (step == next_best_step_) options_.best_step = step;
    for (const checkpoint::Name& name :
         checkpoint::to_delete(all, options_.keep, options_.resumed_from, options_.best_step)) {
        need(checkpoint::remove(options_.checkpoints, name));
        std::erase_if(all, [&](const checkpoint::Kept& kept) { return kept.name == name; });
        link_.report(protocol::CheckpointPruned{name.step, name.writer});
    }
}

bool Saver::pruning_is_due() const {
    const checkpoint::Kept last{{last_step_, options_.writer}, true};
    const auto& all = options_.recorded;
    return last_step_ >= 0 && std::find(all.begin(), all.end(), last) == all.end() &&
           std::ssize(all) >= options_.keep;
}

}  // namespace roll::train
