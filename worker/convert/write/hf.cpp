#include "worker/convert/write/hf.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "common/files.hpp"
#include "worker/convert/plan/quantize.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

// Sorts the layout by file and by the order in which a safetensors file stores its tensors (by
// element type, then by name). Each file can then be written sequentially, which is fastest.
std::vector<Stored> in_file_order(std::vector<Stored> layout, const Plan& draft) {
    std::vector<std::size_t> order(layout.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::tie(layout[a].file, draft.tensors[b].info.dtype, layout[a].name) <
               std::tie(layout[b].file, draft.tensors[a].info.dtype, layout[b].name);
    });
    std::vector<Stored> sorted;
    for (const std::size_t i : order) sorted.push_back(std::move(layout[i]));
    return sorted;
}

// Sets the vocabulary size in the exported config to padded_vocab_size of the native config, if the
// native config has this field.
void set_vocabulary(Json& config, const Source& source) {
    const Json rows = source.config.native.value("padded_vocab_size", Json());
    const auto rule =
        std::find_if(source.family->config.begin(), source.family->config.end(),
                     [](const auto& one) { return one.first == "padded_vocab_size"; });
    if (!rows.is_number_integer() || rule == source.family->config.end()) return;
    std::string pointer = "/" + rule->second.front();
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    Json& place = config[Json::json_pointer(pointer)];
    if (place.is_number_integer()) place = rows;
}

Json exported_config(const Source& source, const Plan& plan, const Output& output) {
    Json config = source.config.hf_config;
    formats::set_dtype(config, plan.dtype);
    if (output.dtype == kEightBits) config["quantization_config"] = quantization_of(source, plan);
    set_vocabulary(config, source);
    if (output.model_max_length) {
        config["model_max_length"] = *output.model_max_length;
        config["max_position_embeddings"] = *output.model_max_length;
    }
    return config;
}

}  // namespace

Result<std::vector<Stored>> sharded_hf_layout(const Source& source, const Output& output,
                                              const formats::HfContainer& container) {
    std::vector<Stored> layout = hf_disk_layout(source.model);
    if (output.dtype == kEightBits) layout = with_scales(source, std::move(layout));
    ROLL_TRY(const Plan draft, make_plan(source, layout, output.cast()));
    std::vector<std::int64_t> sizes;
    for (const TargetTensor& target : draft.tensors) {
        ROLL_TRY(const std::int64_t bytes,
                 tensor::byte_count(target.info.dtype, target.info.shape));
        sizes.push_back(bytes);
    }
    const std::vector<int> shards = formats::split_shards(sizes, output.shard_bytes);
    const int count = shards.empty() ? 1 : shards.back() + 1;
    for (std::size_t i = 0; i < layout.size(); ++i)
        layout[i].file = formats::shard_name(container, shards[i], count);
    return in_file_order(std::move(layout), draft);
}

Result<void> write_hf_config(const Source& source, const Plan& plan, const Output& output,
                             const fs::path& directory) {
    return write_file_atomically(directory / "config.json",
                                 exported_config(source, plan, output).dump(2) + "\n");
}

Result<void> write_index(const Plan& plan, const formats::HfContainer& container,
                         const fs::path& directory) {
    std::map<std::string, std::string> weight_map;
    for (const TargetTensor& target : plan.tensors)
        weight_map[target.info.name] = plan.files[target.file].path;
    return write_file_atomically(directory / formats::index_name(container),
                                 formats::index_text(weight_map, plan.bytes, plan.parameters));
}

Result<void> write_hf_companions(const Source& source, const Plan& plan, const Output& output,
                                 const formats::HfContainer& container, const fs::path& directory) {
    ROLL_TRY_VOID(write_hf_config(source, plan, output, directory));
    return plan.files.size() > 1 ? write_index(plan, container, directory) : Result<void>();
}

}  // namespace roll::convert
