#include "worker/train/report/memory_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <ATen/ATen.h>

#include "worker/plan/size_text.hpp"

namespace roll::train {
namespace {

using Field = std::pair<const char*, std::int64_t RankMemory::*>;
constexpr std::array<Field, 10> kFields{{{"peak", &RankMemory::peak},
                                         {"weights", &RankMemory::weights},
                                         {"main_weights", &RankMemory::main_weights},
                                         {"gradients", &RankMemory::gradients},
                                         {"moments", &RankMemory::moments},
                                         {"activations", &RankMemory::activations},
                                         {"communication", &RankMemory::communication},
                                         {"other", &RankMemory::other},
                                         {"offloaded", &RankMemory::offloaded},
                                         {"free", &RankMemory::free}}};

std::int64_t bytes_of(const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

// Returns the bytes of the tensors of the trained parameters, from parameter `begin` on. Pages of
// frozen parameters' gradients and main weights are never used.
std::int64_t trained_bytes(const Parameters& parameters, const std::vector<at::Tensor>& tensors,
                           std::size_t begin = 0) {
    std::int64_t bytes = 0;
    for (std::size_t i = begin; i < tensors.size(); ++i)
        if (!parameters.specs[i].frozen) bytes += bytes_of(tensors[i]);
    return bytes;
}

void add_chunk(RankMemory& memory, const Parameters& p) {
    memory.weights += bytes_of(p.flat_weight) + bytes_of(p.flat_packed);
    if (p.flat_rest.defined())
        memory.main_weights += trained_bytes(p, p.rest);
    else if (!p.flat_main.is_alias_of(p.flat_weight))
        memory.main_weights +=
            trained_bytes(p, p.main, p.flat_main_offloaded.defined() ? p.offloaded : 0);
    memory.offloaded += bytes_of(p.flat_main_offloaded);
    memory.gradients += trained_bytes(p, p.flat_own_grad.defined() ? p.own_grad : p.grad);
}

// Returns the plan's numbers of a stage under the names of the measured categories. Leaves out the
// copy of a checkpoint, because this copy does not exist yet.
RankMemory of_plan(const plan::MemoryBytes& planned) {
    return {.peak = planned.total() - planned.snapshot,
            .weights = planned.weights,
            .main_weights = planned.main_weights,
            .gradients = planned.gradients,
            .moments = planned.moments,
            .activations = planned.activations + planned.workspace,
            .communication = planned.exchange,
            .other = planned.program,
            .offloaded = planned.offloaded};
}

OrderedJson json_of(const RankMemory& memory) {
    OrderedJson json;
    for (const auto& [name, field] : kFields) json[name] = memory.*field;
    return json;
}

std::string categories_text(const RankMemory& memory) {
    std::string text;
    for (const auto& [name, field] : kFields) {
        if (field == &RankMemory::peak || field == &RankMemory::offloaded ||
            field == &RankMemory::free || memory.*field == 0)
            continue;
        std::string word = name;
        std::ranges::replace(word, '_', ' ');
        char number[64];
        std::snprintf(number, sizeof number, " %.1f",
                      static_cast<double>(memory.*field) / (1 << 20));
        text += (text.empty() ? "" : ", ") + word + number;
    }
    return text;
}

}  // namespace

RankMemory measured_memory(TrainStep& step, const TensorBytes& before,
                           const std::optional<DeviceMemory>& gpu) {
    RankMemory memory;
    for (Chunk& chunk : step.chunks()) add_chunk(memory, chunk.parameters());
    for (Optimizer& optimizer : step.optimizers()) {
        for (const StateTensors& kind : optimizer.state().kinds) {
            memory.moments += bytes_of(kind.flat);
            memory.offloaded += bytes_of(kind.offloaded);
        }
    }
    if (const SavedStore* const store = step.chunks().front().saved_room().store())
        memory.offloaded += store->most();
    const std::int64_t lasting =
        memory.weights + memory.main_weights + memory.gradients + memory.moments;
    if (gpu) {
        memory.peak = gpu->peak;
        memory.activations = gpu->peak - lasting;
        return memory;
    }
    const TensorBytes peak = tensors_at_peak();
    const auto more = [&](TensorUse use) {
        const auto i = static_cast<std::size_t>(use);
        return std::max<std::int64_t>(peak.of[i] - before.of[i], 0);
    };
    memory.peak = process_memory().peak;
    memory.weights += more(TensorUse::Gathered);
    memory.activations = more(TensorUse::Value);
    memory.communication = more(TensorUse::Exchange);
    memory.other = memory.peak - lasting - more(TensorUse::Gathered) - memory.activations -
                   memory.communication;
    memory.free = free_memory();
    return memory;
}

at::Tensor to_tensor(const RankMemory& memory) {
    const at::Tensor numbers = at::empty({std::ssize(kFields)}, at::kLong);
    for (std::size_t i = 0; i < kFields.size(); ++i)
        numbers[static_cast<std::int64_t>(i)] = memory.*kFields[i].second;
    return numbers;
}

std::vector<RankMemory> memories_of(const at::Tensor& all) {
    std::vector<RankMemory> ranks(static_cast<std::size_t>(all.size(0)));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        for (std::size_t i = 0; i < kFields.size(); ++i)
            ranks[rank].*kFields[i].second =
                all[static_cast<std::int64_t>(rank)][static_cast<std::int64_t>(i)]
                    .item<std::int64_t>();
    return ranks;
}

OrderedJson memory_json(std::int64_t step, const std::vector<RankMemory>& ranks,
                        const std::vector<plan::MemoryBytes>& planned,
                        const std::vector<int>& stages) {
    OrderedJson all = OrderedJson::array();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        OrderedJson one = {{"rank", rank}, {"stage", stages[rank]}};
        one.update(json_of(ranks[rank]));
        all.push_back(std::move(one));
    }
    OrderedJson plans = OrderedJson::array();
    for (const plan::MemoryBytes& one : planned) {
        OrderedJson json = json_of(of_plan(one));
        json.erase("free");
        plans.push_back(std::move(json));
    }
    return {{"schema", "roll.memory/1"}, {"step", step}, {"ranks", all}, {"planned_stages", plans}};
}

std::string memory_line(std::int64_t step, const std::vector<RankMemory>& ranks,
                        const std::vector<plan::MemoryBytes>& planned,
                        const std::vector<int>& stages) {
    const auto most = std::ranges::max_element(ranks, {}, &RankMemory::peak);
    const auto rank = static_cast<std::size_t>(most - ranks.begin());
    const RankMemory plan = of_plan(planned[static_cast<std::size_t>(stages[rank])]);
    const auto mib = [](std::int64_t bytes) {
        char text[64];
        std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
        return std::string(text);
    };
    std::string text =
        "memory after step " + std::to_string(step) + ", rank " + std::to_string(rank) +
        (ranks.size() > 1 ? " (the rank with the most): " : ": ") + mib(most->peak) + " = " +
        categories_text(*most) + "; planned " + mib(plan.peak) + " = " + categories_text(plan);
    if (most->offloaded > 0) text += "; offloaded " + mib(most->offloaded);
    if (most->free > 0) text += "; free " + plan::bytes_text(most->free);
    return text;
}

}  // namespace roll::train
