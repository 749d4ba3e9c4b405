// A model that is small enough to train in milliseconds, and data for it.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "worker/train/ops/cross_entropy.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

inline spec::ModelConfig tiny_model(bool tied) {
    return {.family = "llama",
            .hidden = 24,
            .layers = 4,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 6,
            .intermediate = 40,
            .vocab = 53,
            .positions_max = 64,
            .tied = tied};
}

// Returns the micro-batches of a step. They are the same at each call and have different numbers of
// targets that count.
inline std::vector<Microbatch> tiny_batch(int step, int microbatches) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
    std::vector<Microbatch> batch;
    for (int i = 0; i < microbatches; ++i) {
        const at::Tensor ids = at::randint(53, {2, 12}, generator);
        at::Tensor targets = ids.narrow(1, 1, 11).clone();
        targets.slice(1, 0, i).fill_(ops::kIgnored);
        batch.push_back({ids.narrow(1, 0, 11).contiguous(), targets});
    }
    return batch;
}

using Named = std::map<std::string, at::Tensor>;

// Adds a copy of `tensor` to `seen`. If `name` already exists, it is the other copy of a tied
// embedding; then expects both to be bitwise equal.
inline void note_one(Named& seen, const std::string& name, const at::Tensor& tensor) {
    const auto [place, is_new] = seen.try_emplace(name, tensor.clone());
    EXPECT_TRUE(is_new || place->second.equal(tensor)) << "the two copies of " << name;
}

// Returns the elements of `tensor` from `begin` on.
inline at::Tensor box_of(at::Tensor tensor, const std::vector<std::int64_t>& begin,
                         const std::vector<std::int64_t>& size) {
    for (std::size_t i = 0; i < begin.size(); ++i)
        tensor = tensor.narrow(static_cast<std::int64_t>(i), begin[i], size[i]);
    return tensor;
}

// Copies a rank's part of a parameter's tensor to its place in the whole tensor. Elements that no
// rank has copied are NaN. Expects copies of the same elements to be bitwise equal.
inline void note_part(Named& seen, const std::string& name, const ParameterSpec& spec,
                      const at::Tensor& tensor) {
    if (spec.parts.empty()) return note_one(seen, name, tensor);
    const at::Tensor none = at::full(spec.whole, std::nan(""), tensor.options());
    const at::Tensor whole = seen.try_emplace(name, none).first->second;
    for (const layout::Part& part : spec.parts) {
        const at::Tensor to = box_of(whole, part.whole, part.size);
        const at::Tensor from = box_of(tensor, part.local, part.size);
        EXPECT_TRUE(to.isnan().all().item<bool>() || to.equal(from)) << "the copies of " << name;
        to.copy_(from);
    }
}

// Copies all gradients and weights as "grad.NAME" and "weight.NAME". Requires a different prefix
// for each step.
inline void note(Named& seen, const std::string& prefix, TrainStep& trainer) {
    for (Chunk& chunk : trainer.chunks()) {
        const Parameters& p = chunk.parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            note_part(seen, prefix + "grad." + p.specs[i].name, p.specs[i], p.grad[i]);
            note_part(seen, prefix + "weight." + p.specs[i].name, p.specs[i], p.weight[i]);
        }
    }
}

}  // namespace roll::train
