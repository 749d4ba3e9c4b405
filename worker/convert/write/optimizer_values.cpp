#include "worker/convert/write/optimizer_values.hpp"

#include <map>
#include <string>

#include <fmt/format.h>

#include "worker/formats/megatron.hpp"
#include "worker/formats/pickle_writer.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

// Megatron pads the end of a bucket to a multiple of this number of elements and of dp. A
// checkpoint can be loaded at any dp, so Roll writes the sizes for dp 1.
constexpr std::int64_t kPadding = 128;

// Returns the pickle of a list with one object. `write` writes this object. Megatron stores each
// object in such a list.
template <class Write>
std::string object_pickle(const Write& write) {
    formats::PickleWriter out;
    out.list([&] { write(out); });
    return std::move(out).finish();
}

// Writes [{(weights, gradients): [size, ...]}, ...], one dict for each buffer. Each size is a
// multiple of `unit`.
void write_sizes(formats::PickleWriter& out, const BucketSizes& sizes, int group,
                 std::int64_t unit) {
    const auto write_buffer = [&](const std::vector<std::int64_t>& buffer) {
        out.tuple([&] {
            out.global("torch", tensor::torch_name_of(sizes.weights));
            out.global("torch", tensor::torch_name_of(sizes.gradients));
        });
        out.list([&] {
            for (const std::int64_t size : buffer) out.integer((size + unit - 1) / unit * unit);
        });
    };
    out.list([&] {
        for (const auto& buffer : sizes.elements.at(group)) out.dict([&] { write_buffer(buffer); });
    });
}

}  // namespace

Json optimizer_values(const Json& rates, std::int64_t updates, const std::string& kind) {
    const auto number = [&](const char* key, double otherwise) {
        const Json value = rates.value(key, Json());
        return value.is_number() ? value.get<double>() : otherwise;
    };
    const double lr = number("lr", 1e-3), decay = number("weight_decay", 0.1);
    Json groups = Json::array();
    // Megatron has one group for the parameters that decay, and one for norms and biases.
    for (const double factor : {1.0, 0.0})
        groups.push_back({{"is_expert_parallel", false},
                          {"default_config", true},
                          {"wd_mult", factor},
                          {"lr_mult", 1.0},
                          {"is_decoupled_lr", false},
                          {"max_lr", lr},
                          {"min_lr", number("min_lr", 0)},
                          {"lr", lr},
                          {"betas", {number("beta1", 0.9), number("beta2", 0.95)}},
                          {"eps", number("eps", 1e-8)},
                          {"weight_decay", decay * factor},
                          {"bias_correction", true},
                          {"amsgrad", false},
                          {"maximize", false},
                          {"foreach", nullptr},
                          {"capturable", false},
                          {"differentiable", false},
                          {"fused", nullptr},
                          {"decoupled_weight_decay", rates.value("kind", Json()) != "adam"},
                          {"step", updates}});
    return {{"optimizer", {{"param_groups", std::move(groups)}}},
            {"param_state_sharding_type", kind}};
}

Result<void> write_bucket_objects(const Json& values, const BucketSizes& sizes,
                                  const fs::path& directory, formats::DcpMetadata& metadata) {
    // place of each written object, by its pickle; ranks with equal values share an object
    std::map<std::string, formats::DcpExtent> written;
    const auto add = [&](const std::string& name, const auto& write) -> Result<void> {
        const std::string pickle = object_pickle(write);
        const auto [place, is_new] = written.try_emplace(pickle);
        if (is_new) {
            const std::string file = fmt::format("__1_{}.distcp", written.size() - 1);
            ROLL_TRY_VOID(formats::write_torch_pickle(directory / file, pickle));
            std::error_code error;
            const auto size = fs::file_size(directory / file, error);
            place->second = {file, 0, static_cast<std::int64_t>(size)};
        }
        metadata.objects.push_back({name + "/shard_0_1", place->second});
        return {};
    };
    for (const auto& [number, buffers] : sizes.elements) {
        const int group = number;
        const std::string front = fmt::format("{}dp_group_idx_{}.", kBucketKeys, group);
        ROLL_TRY_VOID(add(front + "optimizer", [&](auto& out) {
            out.dict([&] { formats::write_entries(out, values); });
        }));
        ROLL_TRY_VOID(add(front + "per_bucket_numel",
                          [&](auto& out) { write_sizes(out, sizes, group, kPadding); }));
        ROLL_TRY_VOID(add(front + "per_bucket_numel_unpadded",
                          [&](auto& out) { write_sizes(out, sizes, group, 1); }));
    }
    return {};
}

}  // namespace roll::convert
