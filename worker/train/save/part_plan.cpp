#include "worker/train/save/part_plan.hpp"

#include <algorithm>
#include <tuple>

#include <ATen/ATen.h>

#include "common/hash.hpp"
#include "common/processor.hpp"
#include "common/spec/train/pipeline_layout.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/optim/rules.hpp"
#include "worker/train/optim/whole_sums.hpp"
#include "worker/train/save/owned_rows.hpp"

namespace roll::train {
namespace {

constexpr std::string_view kLayers = "decoder.layers.";

tensor::TensorInfo info_of(const Parameters& p, std::size_t i, std::string name,
                           std::int64_t rows) {
    tensor::TensorInfo info{std::move(name), dtype_of(p), p.specs[i].sizes};
    info.shape[0] = rows;
    return info;
}

// Returns the parameter's name in an MCA file. In this name, layers are numbered from the chunk's
// first layer.
std::string name_in_chunk(const ChunkSpec& part, const ParameterSpec& spec) {
    if (is_tied_copy(part, spec)) return "output_layer.weight";
    if (!spec.name.starts_with(kLayers)) return spec.name;
    const std::size_t dot = spec.name.find('.', kLayers.size());
    const std::int64_t layer = std::stoll(spec.name.substr(kLayers.size()));
    return std::string(kLayers) + std::to_string(layer - part.layer_begin) + spec.name.substr(dot);
}

std::vector<Content> weights_of(TrainStep& step, std::size_t chunk) {
    const Parameters& p = step.chunks()[chunk].parameters();
    std::vector<Content> contents;
    for (std::size_t i = 0; i < p.specs.size(); ++i) {
        const std::int64_t rows = p.specs[i].sizes[0];
        std::string name = name_in_chunk(step.chunks()[chunk].part(), p.specs[i]);
        contents.push_back({chunk, i, {0, rows}, info_of(p, i, std::move(name), rows)});
    }
    return contents;
}

std::int64_t bytes_of(const WeightFile& file) {
    std::int64_t bytes = 0;
    for (const std::vector<Content>& contents : file.contents)
        for (const Content& content : contents)
            bytes += tensor::byte_count(content.info.dtype, content.info.shape).value();
    return bytes;
}

// Returns the files for the weights that this rank holds. Ranks with the same tp and pp rank in
// other replicas hold the same weights, and one of these ranks owns the file. Adds the bytes of
// each file to the entry of `bytes` for the replica of its owner.
std::vector<WeightFile> weight_files(TrainStep& step, const formats::McaLayout& layout,
                                     std::vector<std::int64_t>& bytes) {
    const Groups& groups = step.groups();
    const plan::PipelineSchedule& schedule = step.schedule();
    const int tp_rank = groups.tp == nullptr ? 0 : groups.tp->rank();
    // true: in the files, each chunk is stored as a pipeline stage of its own
    const bool by_stage = layout.pp != schedule.pp;
    std::vector<WeightFile> files;
    for (int chunk = 0; chunk < schedule.vp; ++chunk) {
        const int stage = by_stage ? schedule.stage(groups.pp.rank(), chunk) : groups.pp.rank();
        if (by_stage || chunk == 0)
            files.push_back({formats::mca_rank_file(layout, {.tp = tp_rank, .pp = stage})});
        WeightFile& file = files.back();
        file.keys.push_back(formats::mca_chunk_key(layout, by_stage ? 0 : chunk));
        file.contents.push_back(weights_of(step, static_cast<std::size_t>(chunk)));
        file.own = (stage * layout.tp + tp_rank) % groups.dp.size() == groups.dp.rank();
        if (by_stage || chunk + 1 == schedule.vp)
            bytes[static_cast<std::size_t>((stage * layout.tp + tp_rank) % groups.dp.size())] +=
                bytes_of(file);
    }
    return files;
}

// Returns whether the replicas' copies of a weight are equal bit for bit. Ranks that share
// optimizer state get each weight from one rank. Otherwise each replica updates its own copy, and
// processors with other vector instructions round differently.
bool has_equal_replicas(TrainStep& step) {
    if (step.chunks().front().parameters().is_shared) return true;
    const std::uint64_t kind = hash64(processor_text(processor()));
    const at::Tensor own = at::scalar_tensor(static_cast<std::int64_t>(kind), at::kLong);
    const at::Tensor kind_D = gather_over(step.groups().dp, own, {Site::Agreement});
    return kind_D.eq(kind_D[0]).all().item<bool>();
}

// Divides the bytes of the files among the replicas. `others`: for each replica, the number of
// bytes that it writes to other files.
void share_out(std::vector<WeightFile>& files, const std::vector<std::int64_t>& others) {
    std::int64_t all = 0;
    for (const WeightFile& file : files) all += bytes_of(file);
    const std::vector<std::int64_t> shares = balanced_shares(others, all);
    std::int64_t before = 0;  // number of bytes of the files before the current one
    for (WeightFile& file : files) {
        const std::int64_t size = bytes_of(file);
        std::int64_t begin = -before;  // offset in the file at which the part begins
        for (const std::int64_t part : shares) {
            const std::int64_t end = begin + part;
            file.shares.push_back(std::clamp<std::int64_t>(end, 0, size) -
                                  std::clamp<std::int64_t>(begin, 0, size));
            begin = end;
        }
        before += size;
    }
}

void add_states(PartPlan& plan, const Parameters& p, const Owned& one) {
    const ParameterSpec& spec = p.specs[one.index];
    for (const StateTensors* const kind : one.kinds) {
        std::string name = spec.name + std::string(kind->ending);
        plan.states.push_back({one.chunk, one.index, one.rows,
                               info_of(p, one.index, std::move(name), one.rows.count),
                               kind->ending});
        plan.states.back().info.dtype = stored_dtype(*kind);
    }
    const std::string file = std::filesystem::path(plan.states_path).filename();
    plan.boxes.parameters[spec.name] = {whole_sizes(spec), boxes_of(spec, one.rows, file)};
}

// Adds the optimizer states that are not divided among the ranks of a parameter (StateForm::whole).
// Only the first of these ranks writes them. In the index, each of these states is a separate
// entry.
void add_whole_states(PartPlan& plan, TrainStep& step) {
    const Groups& groups = step.groups();
    const std::string file = std::filesystem::path(plan.states_path).filename();
    if (groups.dp.rank() > 0 || (groups.tp != nullptr && groups.tp->rank() > 0)) return;
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        Optimizer& optimizer = step.optimizers()[chunk];
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            if (p.specs[i].frozen || is_tied_copy(step.chunks()[chunk].part(), p.specs[i]))
                continue;
            for (const StateForm& form : states_of(optimizer.options(), p.specs[i])) {
                if (form.whole.empty()) continue;
                const std::string name = p.specs[i].name + std::string(form.ending);
                const layout::Rows rows{0, form.whole[0]};
                plan.states.push_back(
                    {chunk, i, rows, {name, dtype_of(p), form.whole}, form.ending, true});
                plan.boxes.parameters[name] = {
                    form.whole, boxes_of({.name = name, .sizes = form.whole}, rows, file)};
            }
        }
    }
}

}  // namespace

formats::McaLayout mca_layout_of(const spec::ParallelSpec& parallel,
                                 const spec::ModelConfig& config,
                                 const plan::PipelineSchedule& schedule) {
    formats::McaLayout layout;
    layout.tp = parallel.tp;
    std::vector<std::int64_t> layers;
    for (const ChunkSpec& chunk : stage_chunks(config, stage_split(parallel)))
        layers.push_back(chunk.layer_end - chunk.layer_begin);
    if (schedule.placing != plan::Placement::Loop) {
        layout.pp = schedule.stages();
        layout.pipeline = spec::layout_string(layers);
        return layout;
    }
    if (!parallel.pipeline_layout.empty()) layout.pipeline = spec::layout_string(layers);
    layout.pp = parallel.pp;
    layout.vpp = parallel.vpp;
    layout.first_layers = parallel.first_layers;
    layout.last_layers = parallel.last_layers;
    layout.account_for_embedding = parallel.account_for_embedding;
    layout.account_for_loss = parallel.account_for_loss;
    return layout;
}

PartPlan plan_part(TrainStep& step, const formats::McaLayout& layout, int rank) {
    PartPlan plan;
    plan.states_path =
        std::string(checkpoint::kOptimizerFolder) + "/" + checkpoint::optimizer_file(rank);
    std::vector<std::int64_t> weight_bytes(static_cast<std::size_t>(step.groups().dp.size()));
    if (!step.chunks().front().config().lora.is_set())
        plan.weights = weight_files(step, layout, weight_bytes);
    for (const Owned& one : owned_rows(step, weight_bytes))
        add_states(plan, step.chunks()[one.chunk].parameters(), one);
    if (has_equal_replicas(step)) share_out(plan.weights, owned_bytes(step, weight_bytes));
    add_whole_states(plan, step);
    // the order of tensors in a safetensors file
    std::ranges::sort(plan.states, [](const Content& a, const Content& b) {
        return std::tie(b.info.dtype, a.info.name) < std::tie(a.info.dtype, b.info.name);
    });
    return plan;
}

std::vector<checkpoint::StoredBox> boxes_of(const ParameterSpec& spec, const layout::Rows& rows,
                                            const std::string& file) {
    std::vector<checkpoint::StoredBox> boxes;
    for (const layout::Part& part : parts_in(spec, rows))
        boxes.push_back({file, part.whole, part.size, part.local});
    return boxes;
}

}  // namespace roll::train
