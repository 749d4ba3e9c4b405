#include "worker/train/pipeline/job_memory.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "worker/layout/rows.hpp"
#include "worker/plan/buckets.hpp"
#include "worker/train/model/packed_base.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

// Returns the number of elements of Muon's buffers for its largest matrix. For each data-parallel
// rank, there is one buffer of the matrix's size to send and one to receive. The Newton-Schulz
// iteration needs four more buffers of this size.
std::int64_t muon_numel(const spec::TrainSpec& spec, const std::vector<ParameterSpec>& specs) {
    const std::int64_t copies = 2 * std::int64_t{spec.parallel.replicas()} + 4;
    std::int64_t most = 0;
    for (const ParameterSpec& one : specs)
        if (!one.frozen && rule_of(spec.optimizer, one).kind == spec::OptimizerKind::Muon)
            most = std::max(most, c10::multiply_integers(one.sizes) * spec.parallel.tp * copies);
    return most;
}

// Returns the bytes of Adafactor's temporary tensors for the largest parameter. These are the
// product of the gradient with a factor, and float64 copies of the rank's own rows of the weight
// and the gradient. Rows that are already float64 are not copied. If the weight is stored as
// halves, the update also needs a float32 tensor to join the halves.
std::int64_t adafactor_bytes(const spec::TrainSpec& spec, const std::vector<ParameterSpec>& specs,
                             bool on_gpu) {
    if (spec.optimizer.kind != spec::OptimizerKind::Adafactor) return 0;
    const int owners = spec.parallel.zero > 0 ? spec.parallel.replicas() : 1;
    const bool is_double = spec.precision == spec::Precision::Fp64;
    const bool has_halves = spec.precision == spec::Precision::Bf16 && !on_gpu;
    const std::int64_t each = is_double ? 8 : 3 * 8 + (has_halves ? 4 : 0);
    std::int64_t most = 0;
    for (const ParameterSpec& one : specs)
        if (!one.frozen)
            most = std::max(most, c10::multiply_integers(one.sizes) / one.sizes[0] *
                                      layout::own_rows(one.sizes[0], owners, 0).count);
    return each * most;
}

// Returns the bytes of offloaded state that an update on a CPU holds in memory: a window of each
// kind of state, or the whole momentum of the matrix that Muon updates. `specs`: the parameters
// whose state is offloaded.
std::int64_t window_bytes(const spec::TrainSpec& spec, std::span<const ParameterSpec> specs) {
    std::int64_t bytes = 0, largest = 0;
    for (const std::string_view ending : all_endings(spec.optimizer))
        bytes += std::min(plan::kOffloadWindow, state_bytes(spec, specs, ending));
    for (const ParameterSpec& one : specs)
        if (!one.frozen && rule_of(spec.optimizer, one).kind == spec::OptimizerKind::Muon)
            largest = std::max(largest, state_bytes(spec, {&one, 1}));
    return std::max(bytes, largest);
}

// Returns the size of a parameter's state on a rank that owns `rows` rows, in elements of the main
// weights' type.
std::int64_t own_states(const spec::TrainSpec& job, const ParameterSpec& spec, std::int64_t rows) {
    if (spec.frozen) return 0;
    const std::int64_t element = plan::main_bytes(job.precision);
    std::int64_t bytes = 0;
    for (const StateForm& form : states_of(job.optimizer, spec))
        bytes += form.whole.empty() ? element_bytes(form.type, element) * rows *
                                          (c10::multiply_integers(spec.sizes) / spec.sizes[0])
                                    : element * c10::multiply_integers(form.whole);
    return (bytes + element - 1) / element;
}

// Returns the layer whose backward completes the gradient of the parameter, counted from the first
// layer of the chunk. -1: the embedding. The number of layers: what follows the last layer.
std::int64_t place_in(const ParameterSpec& spec, const ChunkSpec& chunk, std::size_t index) {
    const std::int64_t layer = layer_number(spec.name);
    if (layer >= 0) return layer - chunk.layer_begin;
    return chunk.pre && index == 0 ? -1 : chunk.layer_end - chunk.layer_begin;
}

// Returns the buckets of one chunk. While a bucket is summed, there is a buffer for the trained
// gradients of all rows, and a buffer for the sums of this rank's rows. On CPUs, the other ranks'
// gradients of this rank's rows also have a buffer (GlooCommunicator).
std::vector<plan::ExchangeBucket> exchange_buckets(const spec::TrainSpec& job,
                                                   const std::vector<ParameterSpec>& specs,
                                                   const ChunkSpec& chunk, bool on_gpu) {
    const int owners = job.parallel.replicas(), buffers = on_gpu ? owners + 1 : 2 * owners;
    std::vector<std::int64_t> numels;
    for (const ParameterSpec& spec : specs) numels.push_back(c10::multiply_integers(spec.sizes));
    std::vector<plan::ExchangeBucket> found;
    for (const plan::Bucket& bucket :
         plan::cut_buckets(numels, plan::default_bucket_numel(numels))) {
        std::int64_t trained = 0;
        for (int i = bucket.parameter_begin; i < bucket.parameter_end; ++i)
            if (!specs[static_cast<std::size_t>(i)].frozen)
                trained += numels[static_cast<std::size_t>(i)];
        const auto first = static_cast<std::size_t>(bucket.parameter_begin);
        const std::int64_t size = trained * plan::main_bytes(job.precision);
        found.push_back({place_in(specs[first], chunk, first), size, size * buffers / owners});
    }
    return found;
}

// Returns the parameters of a chunk whose optimizer state is outside the device's memory.
std::span<const ParameterSpec> offloaded(const spec::TrainSpec& spec,
                                         std::span<const ParameterSpec> specs) {
    return specs.first(offloaded_count(spec.optimizer, specs, plan::main_bytes(spec.precision)));
}

bool has_main(const ParameterSpec& spec) { return spec.lora != LoraRole::Base; }

// Adds the part of one chunk's optimizer state that data-parallel rank `owner` of `owners` holds.
void add_owned(plan::Owned& owned, const spec::TrainSpec& job,
               const std::vector<ParameterSpec>& specs, int owners, int owner) {
    const std::size_t outside = offloaded(job, specs).size();
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const ParameterSpec& spec = specs[i];
        const std::int64_t rows = layout::own_rows(spec.sizes[0], owners, owner).count;
        const std::int64_t own = c10::multiply_integers(spec.sizes) / spec.sizes[0] * rows;
        const std::int64_t states = own_states(job, spec, rows);
        owned.all += own;
        if (!spec.frozen) owned.trained += own;
        owned.states += states;
        if (i >= outside) continue;
        owned.outside.states += states;
        if (has_main(spec)) owned.outside.main += own;
    }
}

// Returns the unit that gathers the parameter's weight (gathered_weights.hpp). The unit is the
// layer of the parameter or, if the parameter is in no layer, the parameter itself.
std::string unit_of(const std::string& name) {
    constexpr std::string_view kLayers = "decoder.layers.";
    return name.starts_with(kLayers) ? name.substr(0, name.find('.', kLayers.size())) : name;
}

// Adds the numbers of weights that a rank stores, gathers and sends if the ranks share weights
// (ZeRO-3). Forward gathers all layers, and backward gathers the layers from `lowest` on again.
// While a unit is gathered, its rows are in memory twice: as received, and in the whole weights. A
// packed weight counts in elements of `element` bytes.
void add_weights(plan::Owned& owned, const std::vector<ParameterSpec>& specs, int owners, int owner,
                 std::int64_t element, std::int64_t lowest) {
    std::int64_t stored = 0;
    for (const ParameterSpec& spec : specs) {
        const std::int64_t row = row_elements(spec, element);
        const std::int64_t size = row * spec.sizes[0];
        const std::int64_t own = row * layout::own_rows(spec.sizes[0], owners, owner).count;
        stored += is_splittable(spec) ? own : size;
        if (!is_splittable(spec)) {
            owned.updates += spec.frozen ? 0 : own;
            continue;
        }
        const std::string unit = unit_of(spec.name);
        const bool has_backward = layer_number(spec.name) >= lowest;
        owned.gathers += unit == spec.name ? own * spec.uses : (has_backward ? 2 : 1) * own;
    }
    owned.weights += stored;
    owned.gathered =
        std::max(owned.gathered, largest_unit(specs, element) * (2 * owners + 1) / owners);
}

// Returns the largest part of the optimizer state that any data-parallel rank has; nullopt if each
// rank has the whole state.
std::optional<plan::Owned> most_owned(const spec::TrainSpec& job,
                                      const std::vector<std::vector<ParameterSpec>>& chunks,
                                      std::int64_t lowest) {
    const spec::ParallelSpec& p = job.parallel;
    const int owners = p.replicas();
    if (p.zero == 0 || owners == 1) return std::nullopt;
    const std::int64_t element = plan::element_bytes(job.precision);
    plan::Owned most;
    for (int owner = 0; owner < owners; ++owner) {
        plan::Owned owned{.gradients = p.zero > 1};
        for (const std::vector<ParameterSpec>& specs : chunks) {
            add_owned(owned, job, specs, owners, owner);
            if (p.zero > 2) add_weights(owned, specs, owners, owner, element, lowest);
        }
        owned.weights += owned.gathered;
        if (owned.trained >= most.trained) most = owned;
    }
    return most;
}

plan::Held held_by(int stage, const spec::TrainSpec& spec, const spec::ModelConfig& model,
                   const JobPipeline& job, bool on_gpu) {
    const plan::PipelineSchedule& schedule = job.schedule;
    plan::StagePart part{
        .chunks = schedule.vp, .first = false, .last = false, .tp = spec.parallel.tp};
    plan::Held held{.on_gpu = on_gpu};
    std::vector<std::vector<ParameterSpec>> chunks;
    std::vector<std::vector<plan::ExchangeBucket>> buckets;
    for (int i = 0; i < schedule.vp; ++i) {
        ChunkSpec chunk = job.chunks[schedule.stage(stage, i)];
        chunk.tp = spec.parallel.tp;
        std::vector<ParameterSpec> specs = parameter_specs(model, chunk);
        mark_frozen(specs, spec.model.freeze);
        held.frozen += numel(specs) - trainable_numel(specs);
        held.states = held.states.value_or(0) + state_numel(spec, specs);
        const std::span<const ParameterSpec> outside = offloaded(spec, specs);
        held.outside.states += state_numel(spec, outside);
        for (const ParameterSpec& one : outside)
            if (has_main(one)) held.outside.main += c10::multiply_integers(one.sizes);
        if (model.tied && chunk.post && !chunk.pre)
            held.copied_states = state_numel(spec, {&specs.back(), 1});
        if (i == 0) part.first_layer = chunk.layer_begin;
        part.lowest = chunk.lowest;
        part.below += chunk.backward_begin() - chunk.layer_begin;
        part.layers += chunk.layer_end - chunk.layer_begin;
        part.first |= chunk.pre;
        part.last |= chunk.post;
        held.matrices = std::max(held.matrices, muon_numel(spec, specs));
        held.update_bytes =
            std::max(held.update_bytes, adafactor_bytes(spec, specs, on_gpu) +
                                            (on_gpu ? 0 : window_bytes(spec, outside)));
        if (spec.parallel.zero > 0 && spec.parallel.replicas() > 1)
            buckets.push_back(exchange_buckets(spec, specs, chunk, on_gpu));
        chunks.push_back(std::move(specs));
        if (!job.recompute.empty())
            held.recompute.insert(held.recompute.end(), job.recompute.begin() + chunk.layer_begin,
                                  job.recompute.begin() + chunk.layer_end);
    }
    held.part = part;
    held.owned = most_owned(spec, chunks, part.lowest);
    if (held.owned) held.owned->buckets = std::move(buckets);
    if (schedule.pp > 1)
        held.activations = plan::peak_bytes(schedule, stage, costs_in_memory(spec, job.costs));
    return held;
}

}  // namespace

std::vector<plan::Costs> costs_in_memory(const spec::TrainSpec& spec,
                                         std::vector<plan::Costs> costs) {
    if (spec.offloads_activations)
        for (plan::Costs& cost : costs) cost.after_forward = 0;
    return costs;
}

std::int64_t state_bytes(const spec::TrainSpec& spec, std::span<const ParameterSpec> parameters,
                         std::string_view ending) {
    return state_bytes(spec.optimizer, parameters, plan::main_bytes(spec.precision), ending);
}

std::int64_t state_numel(const spec::TrainSpec& spec, std::span<const ParameterSpec> parameters) {
    const std::int64_t element = plan::main_bytes(spec.precision);
    return (state_bytes(spec, parameters) + element - 1) / element;
}

std::int64_t largest_unit(std::span<const ParameterSpec> parameters, std::int64_t element) {
    std::map<std::string, std::int64_t> units;
    std::int64_t largest = 0;
    for (const ParameterSpec& spec : parameters) {
        if (!is_splittable(spec)) continue;
        std::int64_t& size = units[unit_of(spec.name)];
        size += row_elements(spec, element) * spec.sizes[0];
        largest = std::max(largest, size);
    }
    return largest;
}

std::vector<plan::StagePart> parts_of(const JobPipeline& job, int tp) {
    std::vector<plan::StagePart> parts;
    for (const ChunkSpec& chunk : job.chunks)
        parts.push_back({.layers = chunk.layer_end - chunk.layer_begin,
                         .first = chunk.pre,
                         .last = chunk.post,
                         .tp = tp,
                         .first_layer = chunk.layer_begin,
                         .lowest = chunk.lowest,
                         .below = chunk.backward_begin() - chunk.layer_begin});
    return parts;
}

std::vector<plan::Held> stage_held(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                                   const JobPipeline& job, bool on_gpu) {
    const plan::ScheduleReport report = need(plan::check(job.schedule, job.costs));
    std::vector<ParameterSpec> whole = parameter_specs(model, whole_chunk(model));
    mark_frozen(whole, spec.model.freeze);
    std::vector<plan::Held> all;
    for (int stage = 0; stage < job.schedule.pp; ++stage) {
        plan::Held& held = all.emplace_back(held_by(stage, spec, model, job, on_gpu));
        held.live = report.live_max[stage];
        held.part->frozen_of_model = numel(whole) - trainable_numel(whole);
    }
    return all;
}

std::vector<plan::MemoryBytes> stage_memory(const spec::TrainSpec& spec,
                                            const spec::ModelConfig& model, const JobPipeline& job,
                                            bool on_gpu) {
    std::vector<plan::MemoryBytes> all;
    for (const plan::Held& held : stage_held(spec, model, job, on_gpu))
        all.push_back(plan::memory_bytes(model, spec, held));
    return all;
}

}  // namespace roll::train
