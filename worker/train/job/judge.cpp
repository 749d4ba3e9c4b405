#include "worker/train/job/judge.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "worker/train/process/failure.hpp"

namespace roll::train {

void Judge::check(const std::vector<std::string>& known) const {
    const auto need_known = [&](const char* key, const std::string& name) {
        if (std::ranges::find(known, name) != known.end()) return;
        std::string list;
        for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
        throw RankFailure(
            2, std::string(key) + ": " + name + " is not measured by this job; allowed: " +
                   (list.empty() ? "none, because the job has no validation data" : list));
    };
    if (spec_.early_stop.patience > 0)
        need_known("train.early_stop.metric", spec_.early_stop.metric.name);
    if (spec_.checkpoint_keep_best) need_known("train.best.metric", spec_.best.name);
}

bool Judge::decide(checkpoint::State& state, Communicator& world) {
    const OrderedJson values = std::exchange(values_, OrderedJson::object());
    if (values.empty()) return false;
    // Some values, such as bits per byte, are known only on rank 0. Therefore, rank 0 sends the
    // values to all ranks. `told` has one row per metric: [1 if the value is known, the value].
    const at::Tensor told = at::zeros({2, 2}, at::kDouble);
    const std::string* const names[] = {&spec_.best.name, &spec_.early_stop.metric.name};
    for (std::int64_t i = 0; i < 2; ++i) {
        const auto found = values.find(*names[i]);
        if (found == values.end() || !found->is_number()) continue;
        told[i][0] = 1;
        told[i][1] = found->get<double>();
    }
    broadcast_from(0, world, told, {Site::Agreement});
    const auto is_known = [&](int i) { return told[i][0].item<double>() > 0; };
    const auto value = [&](int i) { return told[i][1].item<double>(); };
    if (is_known(1))
        note_stop(state, value(1), spec_.early_stop.metric.higher, spec_.early_stop.min_delta);
    return is_known(0) && note_best(state, value(0), spec_.best.higher);
}

}  // namespace roll::train
