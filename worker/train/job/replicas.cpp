#include "worker/train/job/replicas.hpp"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "worker/train/pipeline/tensor_hash.hpp"

namespace roll::train {
namespace {

// A tensor and its name for messages. Each replica has a copy of the tensor.
struct Copy {
    std::string name;
    at::Tensor tensor;
};

std::vector<Copy> copies_of(TrainStep& step) {
    std::vector<Copy> copies;
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        const OptimizerState& state = step.optimizers()[chunk].state();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const std::string& name = p.specs[i].name;
            if (!p.is_split[i]) copies.push_back({name, p.weight[i]});
            if (p.is_shared || p.specs[i].frozen) continue;
            if (p.flat_rest.defined())
                copies.push_back({name + " (low half of the main weight)", p.rest[i]});
            else if (!p.flat_main.is_same(p.flat_weight))
                copies.push_back({name + " (main weight)", p.main[i]});
            for (const StateTensors& kind : state.kinds)
                if (kind.of[i].defined())
                    copies.push_back({name + std::string(kind.ending), kind.of[i]});
        }
    }
    return copies;
}

// Groups the ranks by the hashes of their copies. The largest group comes first. `hash_R`: the hash
// of each rank.
std::vector<std::vector<int>> by_hash(const std::int64_t* hash_R, const std::vector<int>& ranks) {
    std::map<std::int64_t, std::vector<int>> equal;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        equal[hash_R[rank]].push_back(ranks[rank]);
    std::vector<std::vector<int>> sets;
    for (auto& [hash, of_hash] : equal) sets.push_back(std::move(of_hash));
    std::ranges::sort(sets, [](const auto& a, const auto& b) {
        return std::pair(b.size(), a) < std::pair(a.size(), b);
    });
    return sets;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
    std::string text = ranks.size() > 1 ? "ranks " : "rank ";
    for (std::size_t i = 0; i < ranks.size(); ++i)
        text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return text;
}

std::optional<std::string> replica_difference(TrainStep& step, const std::vector<int>& ranks) {
    const std::vector<Copy> copies = copies_of(step);
    const at::Tensor own = at::empty({std::ssize(copies)}, at::kLong);
    for (std::size_t i = 0; i < copies.size(); ++i) {
        own.data_ptr<std::int64_t>()[i] = hash_of(copies[i].tensor.cpu());
        let_go(copies[i].tensor);
    }
    const at::Tensor hash_CR =
        gather_over(step.groups().dp, own, {Site::Replicas}).t().contiguous();
    for (std::size_t i = 0; i < copies.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        const auto sets = by_hash(hash_CR[row].const_data_ptr<std::int64_t>(), ranks);
        if (sets.size() == 1) continue;
        std::string text = copies[i].name + " differs between replicas: the copy of " +
                           ranks_text(sets[1]) + " differs from the copy of " + ranks_text(sets[0]);
        if (sets.size() > 2) text += ", and further copies also differ";
        return text;
    }
    return std::nullopt;
}

}  // namespace roll::train
