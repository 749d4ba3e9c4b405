#include "worker/train/save/dist_part.hpp"

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/write/dist.hpp"
#include "worker/convert/write/optimizer_values.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/optim/whole_sums.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/owned_rows.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using tensor::Shape;

constexpr const char* kIteration = "iter_0000001";
constexpr const char* kLayerPrefix = "decoder.layers.";
constexpr const char* kState = "optimizer.state.";

// The tensor of a checkpoint that holds a parameter.
struct Key {
    std::string name;
    Shape whole;  // the tensor's shape
    // if the tensor stacks the parameters of all layers: [index of this parameter's layer];
    // otherwise empty
    Shape layer;
};

Key key_of(const ParameterSpec& spec, std::int64_t layers, bool stacks) {
    const Shape& whole = whole_sizes(spec);
    if (!stacks || !spec.name.starts_with(kLayerPrefix)) return {spec.name, whole, {}};
    const std::int64_t layer = std::stoll(spec.name.substr(std::strlen(kLayerPrefix)));
    Key key{convert::without_layer(spec.name, layer), {layers}, {layer}};
    key.whole.insert(key.whole.end(), whole.begin(), whole.end());
    return key;
}

// Returns the block of a parameter that `part` describes. `part.local` is relative to `rows`.
DistBlock block_of(const Owned& one, const ParameterSpec& spec, const layout::Part& part,
                   const Key& key) {
    DistBlock block{{one.chunk, one.index, {one.rows.begin + part.local[0], part.size[0]}, {}},
                    key.whole,
                    key.layer};
    for (std::size_t dim = 1; dim < part.size.size(); ++dim)  // parameters are divided only by rows
        ROLL_CHECK(part.size[dim] == spec.sizes[dim]);
    tensor::TensorInfo& info = block.content.info;
    info.name = key.name;
    info.shape.assign(key.layer.size(), 1);
    info.shape.insert(info.shape.end(), part.size.begin(), part.size.end());
    block.begin.insert(block.begin.end(), part.whole.begin(), part.whole.end());
    return block;
}

// Returns this rank's blocks as JSON, with their places in the rank's file.
std::string encoded(const PartPlan& own) {
    std::vector<tensor::TensorInfo> infos;
    for (const DistBlock& block : own.blocks) infos.push_back(block.content.info);
    const auto extents =
        need(formats::lay_out_distcp(fs::path(own.blocks_path).filename().string(), infos));
    Json blocks = Json::array();
    for (std::size_t i = 0; i < infos.size(); ++i)
        blocks.push_back({infos[i].name, static_cast<int>(infos[i].dtype), own.blocks[i].whole,
                          own.blocks[i].begin, infos[i].shape, extents[i].file, extents[i].begin,
                          extents[i].size});
    return blocks.dump();
}

// Adds the blocks that encoded() returned on a rank.
void add_blocks(const std::string& text, std::map<std::string, formats::DcpTensor>& tensors) {
    for (const Json& block : need(parse_json(text))) {
        const auto name = block[0].get<std::string>();
        formats::DcpTensor& tensor = tensors[name];
        tensor.info = {name, static_cast<tensor::DType>(block[1].get<int>()),
                       block[2].get<Shape>()};
        tensor.chunks.push_back({block[3].get<Shape>(),
                                 block[4].get<Shape>(),
                                 {block[5].get<std::string>(), block[6].get<std::int64_t>(),
                                  block[7].get<std::int64_t>()}});
    }
}

// Returns the texts of all ranks, on every rank.
std::vector<std::string> gathered(const std::string& own, Communicator& world) {
    const Tag tag{Site::Agreement};
    const at::Tensor sizes = gather_over(world, at::full({}, std::ssize(own), at::kLong), tag);
    const at::Tensor padded = at::zeros({sizes.max().item<std::int64_t>()}, at::kByte);
    std::memcpy(padded.data_ptr(), own.data(), own.size());
    const at::Tensor all = gather_over(world, padded, tag).contiguous();
    std::vector<std::string> texts;
    for (std::int64_t rank = 0; rank < world.size(); ++rank)
        texts.emplace_back(static_cast<const char*>(all[rank].const_data_ptr()),
                           static_cast<std::size_t>(sizes[rank].item<std::int64_t>()));
    return texts;
}

// Returns the names of the extra states that Megatron requires.
std::set<std::string> extra_states(const formats::DcpMetadata& metadata, bool stacks) {
    std::set<std::string> names;
    for (const formats::DcpTensor& tensor : metadata.tensors) {
        const std::string& key = tensor.info.name;
        if (key.starts_with(kState)) continue;
        if (!stacks || !key.starts_with(kLayerPrefix)) {
            convert::add_extra_states(names, key, {}, {});
            continue;
        }
        const std::int64_t layers = tensor.info.shape[0];
        for (std::int64_t layer = 0; layer < layers; ++layer)
            convert::add_extra_states(names, key, {layer}, {layers});
    }
    return names;
}

}  // namespace

PartPlan plan_dist_part(TrainStep& step, const Json& native, int rank) {
    PartPlan plan;
    plan.blocks_path = std::string(kIteration) + "/__" + std::to_string(rank) + "_0.distcp";
    const bool stacks = convert::stacks_layers(native);
    const std::int64_t layers = step.chunks().front().config().layers;
    const std::vector<std::int64_t> fixed(static_cast<std::size_t>(step.groups().dp.size()));
    for (const Owned& one : owned_rows(step, fixed, true)) {
        const Parameters& p = step.chunks()[one.chunk].parameters();
        const ParameterSpec& spec = p.specs[one.index];
        const Key key = key_of(spec, layers, stacks);
        for (const layout::Part& part : parts_in(spec, one.rows)) {
            DistBlock block = block_of(one, spec, part, key);
            block.content.info.dtype = dtype_of(p);
            plan.blocks.push_back(block);
            for (const StateTensors* const kind : one.kinds) {
                block.content.info.dtype = stored_dtype(*kind);
                block.content.info.name =
                    kState + std::string(kind->ending.substr(1)) + "." + key.name;
                block.content.state = kind->ending;
                plan.blocks.push_back(block);
            }
        }
    }
    return plan;
}

formats::DcpMetadata dist_metadata(const PartPlan& own, Communicator& world) {
    std::map<std::string, formats::DcpTensor> tensors;
    for (const std::string& text : gathered(encoded(own), world)) add_blocks(text, tensors);
    formats::DcpMetadata metadata;
    for (const auto& [name, tensor] : tensors) {
        metadata.tensors.push_back(tensor);
        if (name.starts_with(kState)) continue;
        metadata.tensors.push_back(tensor);
        metadata.tensors.back().info.name = kState + ("param." + name);
    }
    // Only rank 0 checks the metadata. If the check fails, rank 0 ends, and the other ranks end
    // because they have lost a peer.
    if (world.rank() == 0) {
        const std::string pickle = formats::dcp_metadata_pickle(metadata);
        need(formats::parse_dcp_metadata(tensor::as_bytes(pickle)));
    }
    return metadata;
}

Result<void> write_dist_files(const fs::path& directory, const formats::McaConfig& config,
                              const formats::DcpMetadata& metadata, const checkpoint::State& state,
                              const std::string& job) {
    ROLL_TRY(const checkpoint::OptimizerIndex index, checkpoint::read_optimizer_index(directory));
    ROLL_TRY(const Json record, parse_json(job));
    const Json rates = record.value(Json::json_pointer("/train/optimizer"), Json::object());
    const fs::path iteration = directory / kIteration;
    ROLL_TRY_VOID(convert::write_dist_head(
        metadata, extra_states(metadata, convert::stacks_layers(config.native)), iteration));
    return convert::write_dist_common(
        formats::megatron_args(config, tensor::DType::F32), state.step,
        convert::optimizer_values(rates, index.updates, convert::kFullyReshardable), iteration);
}

bool is_dist(const fs::path& checkpoint) {
    return path_exists(checkpoint / kIteration / formats::kDcpMetadataFile);
}

}  // namespace roll::train
