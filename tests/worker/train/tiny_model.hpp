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

// Copies a rank's part of a parameter's tensor to its place in the whole tensor. Elements that are
// NaN are not on this rank. Elements that no rank has copied are NaN. Expects copies of the same
// elements to be bitwise equal.
inline void note_part(Named& seen, const std::string& name, const ParameterSpec& spec,
                      const at::Tensor& tensor) {
    const at::Tensor none = at::full(whole_sizes(spec), std::nan(""), tensor.options());
    const at::Tensor whole = seen.try_emplace(name, none).first->second;
    std::vector<layout::Part> parts = spec.parts;
    const layout::Shape start(spec.sizes.size(), 0);
    if (parts.empty()) parts.push_back({start, {spec.sizes.begin(), spec.sizes.end()}, start});
    for (const layout::Part& part : parts) {
        const at::Tensor to = box_of(whole, part.whole, part.size);
        const at::Tensor from = box_of(tensor, part.local, part.size);
        const at::Tensor has = from.isnan().logical_not_();
        const at::Tensor copies = to.masked_select(has);
        EXPECT_TRUE(
            copies.isnan().logical_or(copies.eq(from.masked_select(has))).all().item<bool>())
            << "the copies of " << name;
        to.copy_(at::where(has, from, to));
    }
}

// Copies a tensor that has only the own rows of parameter `i`.
inline void note_own(Named& seen, const std::string& name, const Parameters& p, std::size_t i,
                     const at::Tensor& rows) {
    const at::Tensor all = at::full(p.specs[i].sizes, std::nan(""), rows.options());
    own_rows(p, i, all).copy_(rows);
    note_part(seen, name, p.specs[i], all);
}

// Copies all gradients, weights and moments as "grad.NAME", "weight.NAME", "average.NAME" and
// "square.NAME". Requires a different prefix for each step. Expects the copies of replicas and of
// tied embeddings to be bitwise equal.
inline void note(Named& seen, const std::string& prefix, TrainStep& trainer) {
    for (std::size_t chunk = 0; chunk < trainer.chunks().size(); ++chunk) {
        const Parameters& p = trainer.chunks()[chunk].parameters();
        const AdamWState& moments = trainer.optimizers()[chunk].state();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const std::string& name = p.specs[i].name;
            note_own(seen, prefix + "grad." + name, p, i, p.own_grad[i]);
            note_part(seen, prefix + "weight." + name, p.specs[i], p.weight[i]);
            if (p.specs[i].frozen) continue;
            note_own(seen, prefix + "average." + name, p, i, moments.average[i]);
            note_own(seen, prefix + "square." + name, p, i, moments.square[i]);
        }
    }
}

}  // namespace roll::train
