#include "worker/train/save/part_plan.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <ATen/ATen.h>

#include "worker/train/optim/rules.hpp"
#include "worker/train/optim/whole_sums.hpp"

namespace roll::train {
namespace {

constexpr const char* kEmbedding = "embedding.word_embeddings.weight";
constexpr std::string_view kLayers = "decoder.layers.";

tensor::DType main_dtype(const Parameters& p) {
    return main_type(p) == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
}

tensor::TensorInfo info_of(const Parameters& p, std::size_t i, std::string name,
                           std::int64_t rows) {
    tensor::TensorInfo info{std::move(name), main_dtype(p), p.specs[i].sizes};
    info.shape[0] = rows;
    return info;
}

// Returns true for the last stage's copy of a tied embedding.
bool is_tied_copy(const ChunkSpec& part, const ParameterSpec& spec) {
    return spec.name == kEmbedding && part.post && !part.pre;
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

// The rows of a parameter's state that this rank writes. Each element is written by exactly one
// rank of the job.
struct Owned {
    std::size_t chunk = 0, index = 0;
    layout::Rows rows;
    // the states that have the parameter's shape
    std::vector<const StateTensors*> kinds;
};

// Returns true if each rank of the parameter has the whole state (StateForm).
bool is_whole(const spec::OptimizerSpec& options, const ParameterSpec& spec,
              std::string_view ending) {
    return std::ranges::any_of(states_of(options, spec), [&](const StateForm& form) {
        return form.ending == ending && !form.whole.empty();
    });
}

std::vector<const StateTensors*> kinds_of(Optimizer& optimizer, const ParameterSpec& spec,
                                          std::size_t index) {
    std::vector<const StateTensors*> kinds;
    for (const StateTensors& kind : optimizer.state().kinds)
        if (kind.of[index].defined() && !is_whole(optimizer.options(), spec, kind.ending))
            kinds.push_back(&kind);
    return kinds;
}

tensor::DType stored_dtype(const StateTensors& kind) {
    const at::ScalarType type = kind.flat.scalar_type();
    return type == at::kByte       ? tensor::DType::U8
           : type == at::kBFloat16 ? tensor::DType::BF16
           : type == at::kDouble   ? tensor::DType::F64
                                   : tensor::DType::F32;
}

std::int64_t row_bytes(const ParameterSpec& spec, const std::vector<const StateTensors*>& kinds) {
    std::int64_t bytes = 0;
    for (const StateTensors* const kind : kinds)
        bytes += static_cast<std::int64_t>(kind->flat.element_size()) *
                 c10::multiply_integers(spec.sizes) / spec.sizes[0];
    return bytes;
}

// Returns the states that the ranks at this rank's position in a replica write. If several ranks of
// a replica hold copies of a parameter, only one copy is written.
std::vector<Owned> owned_states(TrainStep& step) {
    const Communicator* tp = step.groups().tp;
    std::vector<Owned> owned;
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            const ParameterSpec& spec = p.specs[i];
            const bool is_copy = spec.parts.empty() && tp != nullptr && tp->rank() > 0;
            if (spec.frozen || is_copy || is_tied_copy(step.chunks()[chunk].part(), spec)) continue;
            auto kinds = kinds_of(step.optimizers()[chunk], spec, i);
            if (!kinds.empty())
                owned.push_back({chunk, i, {0, unpadded_rows(spec)}, std::move(kinds)});
        }
    }
    return owned;
}

// Reduces `owned` to the own rows of this rank. Used if ranks share optimizer state.
void keep_own_rows(TrainStep& step, std::vector<Owned>& owned) {
    for (Owned& one : owned) {
        const layout::Rows& own = step.chunks()[one.chunk].parameters().own[one.index];
        const std::int64_t end = std::min(own.begin + own.count, one.rows.count);
        one.rows = {own.begin, std::max<std::int64_t>(end - own.begin, 0)};
    }
}

// Reduces `owned` to this rank's share of the rows. Used if every replica has all states.
void keep_share(TrainStep& step, std::vector<Owned>& owned,
                const std::vector<std::int64_t>& weight_bytes) {
    std::int64_t all = 0;
    const auto bytes_of_row = [&](const Owned& one) {
        const Parameters& p = step.chunks()[one.chunk].parameters();
        return row_bytes(p.specs[one.index], one.kinds);
    };
    for (const Owned& one : owned) all += one.rows.count * bytes_of_row(one);
    const std::vector<std::int64_t> shares = balanced_shares(weight_bytes, all);
    const auto self = shares.begin() + step.groups().dp.rank();
    const std::int64_t begin = std::accumulate(shares.begin(), self, std::int64_t{0});
    const std::int64_t end = begin + *self;
    std::int64_t before = 0;  // number of bytes of the parameters before the current one
    for (Owned& one : owned) {
        const std::int64_t row = bytes_of_row(one);
        const auto row_at = [&](std::int64_t byte) {
            return std::clamp((byte - before + row - 1) / row, std::int64_t{0}, one.rows.count);
        };
        const std::int64_t size = one.rows.count * row, first = row_at(begin);
        one.rows = {first, row_at(end) - first};
        before += size;
    }
}

// Returns the weight files that contain the weights at this rank's position in a replica. `bytes`:
// for each replica, this function adds the number of bytes of these files that the replica writes.
std::vector<WeightFile> weight_files(TrainStep& step, const formats::McaLayout& layout,
                                     std::vector<std::int64_t>& bytes) {
    const Groups& groups = step.groups();
    const plan::PipelineSchedule& schedule = step.schedule();
    const int tp_rank = groups.tp == nullptr ? 0 : groups.tp->rank();
    // true: in the files, each chunk is a stage
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

// Adds the states that every rank of a parameter has whole. The first rank writes each of these
// states, as a separate parameter.
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
                    {chunk, i, rows, {name, main_dtype(p), form.whole}, form.ending, true});
                plan.boxes.parameters[name] = {
                    form.whole, boxes_of({.name = name, .sizes = form.whole}, rows, file)};
            }
        }
    }
}

// Returns the layers of all chunks as a layout string, such as "E,t*3|t*4,L".
std::string layout_string(const std::vector<ChunkSpec>& chunks) {
    std::string text;
    for (const ChunkSpec& chunk : chunks) {
        if (!chunk.pre) text += "|";
        std::string part = chunk.pre ? "E" : "";
        const auto add = [&](const std::string& symbol) {
            part += (part.empty() ? "" : ",") + symbol;
        };
        const std::int64_t layers = chunk.layer_end - chunk.layer_begin;
        if (layers > 0) add("t*" + std::to_string(layers));
        if (chunk.post) add("L");
        text += part;
    }
    return text;
}

}  // namespace

formats::McaLayout mca_layout_of(const spec::ParallelSpec& parallel,
                                 const spec::ModelConfig& config,
                                 const plan::PipelineSchedule& schedule) {
    formats::McaLayout layout;
    layout.tp = parallel.tp;
    if (schedule.placing != plan::Placement::Loop) {
        layout.pp = schedule.stages();
        layout.pipeline = layout_string(stage_chunks(config, stage_split(parallel)));
        return layout;
    }
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
    std::vector<Owned> owned = owned_states(step);
    if (step.chunks().front().parameters().is_shared)
        keep_own_rows(step, owned);
    else
        keep_share(step, owned, weight_bytes);
    for (const Owned& one : owned)
        if (one.rows.count > 0) add_states(plan, step.chunks()[one.chunk].parameters(), one);
    add_whole_states(plan, step);
    // the order of tensors in a safetensors file
    std::ranges::sort(plan.states, [](const Content& a, const Content& b) {
        return std::tie(b.info.dtype, a.info.name) < std::tie(a.info.dtype, b.info.name);
    });
    return plan;
}

std::vector<std::int64_t> balanced_shares(const std::vector<std::int64_t>& fixed,
                                          std::int64_t shared) {
    std::vector<std::int64_t> order = fixed;
    std::ranges::sort(order);
    // Shared bytes go to the ranks with the fewest fixed bytes, until these ranks reach a common
    // level.
    std::int64_t sum = shared, level = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        sum += order[i];
        level = sum / static_cast<std::int64_t>(i + 1);
        if (i + 1 == order.size() || level <= order[i + 1]) break;
    }
    std::vector<std::int64_t> shares;
    std::int64_t rest = shared;
    for (const std::int64_t bytes : fixed) {
        shares.push_back(std::min(rest, std::max<std::int64_t>(level - bytes, 0)));
        rest -= shares.back();
    }
    const auto least = std::ranges::min_element(fixed) - fixed.begin();
    // the remainder of the division goes to this rank
    shares[static_cast<std::size_t>(least)] += rest;
    return shares;
}

std::vector<checkpoint::StoredBox> boxes_of(const ParameterSpec& spec, const layout::Rows& rows,
                                            const std::string& file) {
    std::vector<checkpoint::StoredBox> boxes;
    for (const layout::Part& part : parts_in(spec, rows))
        boxes.push_back({file, part.whole, part.size, part.local});
    return boxes;
}

}  // namespace roll::train
