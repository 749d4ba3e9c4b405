#include "worker/convert/write/dist.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/write/optimizer_values.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/formats/pickle_writer.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "__0_0.distcp";
constexpr const char* kStatesFile = "__0_1.distcp";
constexpr const char* kIteration = "iter_0000001";
constexpr const char* kModel = "dist_model";

// Returns the metadata of the plan's tensors. If `folder` is not empty, uses only the tensors whose
// files are in this folder.
Result<formats::DcpMetadata> metadata_of(const Plan& plan, const fs::path& folder = {}) {
    formats::DcpMetadata metadata;
    std::map<std::string, std::size_t> place;
    for (std::size_t file = 0, first = 0; file < plan.files.size(); ++file) {
        const std::vector<tensor::TensorInfo>& infos = plan.files[file].tensors;
        const std::size_t begin = std::exchange(first, first + infos.size());
        const fs::path path = plan.files[file].path;
        if (!folder.empty() && path.parent_path() != folder) continue;
        ROLL_TRY(const auto extents, formats::lay_out_distcp(path.filename().string(), infos));
        for (std::size_t i = 0; i < infos.size(); ++i) {
            const TargetTensor& target = plan.tensors[begin + i];
            const auto [at, added] = place.emplace(target.info.name, metadata.tensors.size());
            if (added)
                metadata.tensors.push_back(
                    {{target.info.name, target.info.dtype, target.whole}, {}});
            formats::DcpTensor& tensor = metadata.tensors[at->second];
            if (tensor.info.dtype != target.info.dtype)
                return fail(ErrorCode::InvalidArgument,
                            target.info.name + " would combine types " +
                                name_of(tensor.info.dtype) + " and " + name_of(target.info.dtype) +
                                " in one tensor",
                            "choose one type with --dtype");
            tensor.chunks.push_back({target.origin, infos[i].shape, extents[i]});
        }
    }
    return metadata;
}

// Returns the names of the modules' extra states.
std::set<std::string> extra_states(const Plan& plan) {
    std::set<std::string> names;
    for (const TargetTensor& target : plan.tensors) {
        if (target.info.name.starts_with("optimizer.")) continue;
        const auto stacked =
            static_cast<std::ptrdiff_t>(target.whole.size() - target.info.shape.size());
        add_extra_states(names, target.info.name,
                         {target.origin.begin(), target.origin.begin() + stacked},
                         {target.whole.begin(), target.whole.begin() + stacked});
    }
    return names;
}

std::string list_of_none() {
    formats::PickleWriter out;
    out.list([&] { out.op(formats::pickle_op::kNone); });
    return std::move(out).finish();
}

// Writes the extra states. All extra states refer to one file, which holds one value None.
Result<void> write_extra_states(const std::set<std::string>& names, const fs::path& directory,
                                formats::DcpMetadata& metadata) {
    if (names.empty()) return {};
    const fs::path path = directory / kStatesFile;
    ROLL_TRY_VOID(formats::write_torch_pickle(path, list_of_none()));
    std::error_code error;
    const auto size = static_cast<std::int64_t>(fs::file_size(path, error));
    for (const std::string& name : names)
        metadata.objects.push_back({name, {kStatesFile, 0, size}});
    return {};
}

Result<void> write_metadata(const formats::DcpMetadata& metadata, const fs::path& directory) {
    return write_file_atomically(directory / formats::kDcpMetadataFile,
                                 formats::dcp_metadata_pickle(metadata));
}

// Writes a torch file that holds a dict without tensors. `write` writes the entries of this dict.
Result<void> write_common(const fs::path& path,
                          const std::function<void(formats::PickleWriter&)>& write = {}) {
    ROLL_TRY(auto writer, formats::TorchFileWriter::create(path, {}, write));
    return writer.finish();
}

// Creates symbolic links in `directory` to the target's files in `model`, the dist_model directory.
// The two directories have different files named common.pt.
Result<void> link_files(const fs::path& directory, const fs::path& model) {
    std::error_code error;
    fs::directory_iterator files(directory / model, error);
    for (; !error && files != fs::directory_iterator(); files.increment(error)) {
        const fs::path name = files->path().filename();
        if (name == "common.pt") continue;
        fs::create_symlink(model / name, directory / name, error);
        if (error) break;
    }
    if (!error) return {};
    return fail(ErrorCode::Failed, "cannot link the files of " + (directory / model).string() +
                                       ": " + error.message());
}

// Adds the objects beside the plan's buckets to a directory with the optimizer's state. Returns the
// optimizer's values for common.pt.
Result<Json> add_buckets(const Plan& plan, const fs::path& directory,
                         formats::DcpMetadata& metadata) {
    Json common = plan.optimizer;
    if (!plan.buckets) return common;
    ROLL_TRY_VOID(write_bucket_objects(common["optimizer"], *plan.buckets, directory, metadata));
    common.erase("optimizer");
    return common;
}

}  // namespace

Result<std::vector<Stored>> torch_dist_layout(const Source& source,
                                              const formats::McaConfig& config) {
    return dist_layout(source.native, source.model, config, fs::path(kIteration) / kModel / kFile);
}

Result<std::vector<Stored>> roll_optimizer_layout(const Source& source,
                                                  const formats::McaConfig& config) {
    return dist_layout(source.native, source.model, config,
                       fs::path(kIteration) / kOptimizerPart / kFile);
}

Result<BucketLayout> optimizer_buckets(const Source& source, const formats::McaConfig& config,
                                       const BucketRule& rule, bool is_beside_ranks) {
    const fs::path folder = is_beside_ranks ? kOptimizerPart : kModel;
    ROLL_TRY(const auto ranks, mca_layout(source.native, source.model, config));
    const bool is_tied = std::ranges::none_of(
        source.native, [](const auto& one) { return one.name == "output_layer.weight"; });
    return bucket_layout(ranks, config.layout, is_tied, rule,
                         fs::path(kIteration) / folder / kFile);
}

Result<std::vector<Stored>> fsdp_dtensor_layout(const Source& source,
                                                const formats::McaConfig& config) {
    return fsdp_layout(source.native, source.model, config, fs::path(kIteration) / kFile);
}

std::vector<Stored> dcp_layout(const Source& source) {
    std::vector<Stored> layout = hf_disk_layout(source.model);
    for (Stored& stored : layout) {
        stored.file = kFile;
        stored.whole = stored.shape;
        stored.origin.assign(stored.shape.size(), 0);
    }
    return layout;
}

Result<std::unique_ptr<TargetWriter>> create_distcp(const fs::path& path, const TargetFile& file,
                                                    const fs::path& earlier) {
    ROLL_TRY(auto writer, formats::DistcpWriter::create(path, file.tensors, earlier));
    return std::make_unique<FormatWriter<formats::DistcpWriter>>(std::move(writer));
}

void add_extra_states(std::set<std::string>& names, const std::string& key, const Shape& origin,
                      const Shape& stacked) {
    std::string offset;
    std::string shape;
    for (std::size_t axis = 0; axis < stacked.size(); ++axis) {
        offset += (axis == 0 ? "" : ".") + std::to_string(origin[axis]);
        shape += (axis == 0 ? "" : ".") + std::to_string(stacked[axis]);
    }
    const std::string place =
        "._extra_state/shard_" + (shape.empty() ? "0_1" : offset + "_" + shape);
    const std::string module = module_of(key);
    names.insert(module + place);
    if (module.ends_with(".self_attention.linear_proj"))
        names.insert(module_of(module) + ".core_attention" + place);
}

Result<void> write_dist_head(formats::DcpMetadata metadata,
                             const std::set<std::string>& extra_states, const fs::path& directory) {
    ROLL_TRY_VOID(write_extra_states(extra_states, directory, metadata));
    ROLL_TRY_VOID(write_metadata(metadata, directory));
    return write_file_atomically(
        directory / "metadata.json",
        R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
        R"("common_backend": "torch", "common_backend_version": 1})");
}

Result<void> write_dist_common(const Json& args, std::int64_t iteration, const Json& optimizer,
                               const fs::path& directory) {
    Json more;
    if (!optimizer.is_null())
        more = {{"optimizer", optimizer},
                {"content_metadata",
                 {{"distrib_optim_sharding_type", optimizer["param_state_sharding_type"]},
                  {"chained_optim_avoid_prefix", true},
                  {"singleton_local_shards", false}}}};
    return write_common(directory / "common.pt", [&](formats::PickleWriter& out) {
        if (!args.is_null()) formats::write_megatron_state(out, args, 3, iteration);
        if (!more.is_null()) formats::write_entries(out, more);
    });
}

Result<void> finish_torch_dist(const Plan& plan, const Json& args, const fs::path& directory) {
    const fs::path model = directory / kIteration / kModel;
    ROLL_TRY(formats::DcpMetadata metadata, metadata_of(plan));
    ROLL_TRY_VOID(write_common(model / "common.pt"));
    ROLL_TRY(const Json optimizer, add_buckets(plan, model, metadata));
    ROLL_TRY_VOID(write_dist_head(std::move(metadata), extra_states(plan), model));
    // For a ROLL target, `args` is null, because ROLL stores the arguments with the model's state.
    ROLL_TRY_VOID(write_dist_common(args, 0, optimizer, directory / kIteration));
    // Link each file, because ROLL looks for the files in dist_model, and Megatron looks for them
    // in the iteration directory.
    return link_files(directory / kIteration, kModel);
}

Result<void> finish_roll_optimizer(const Plan& plan, const fs::path& directory) {
    const fs::path folder = fs::path(kIteration) / kOptimizerPart;
    ROLL_TRY(formats::DcpMetadata metadata, metadata_of(plan, folder));
    ROLL_TRY(const Json optimizer, add_buckets(plan, directory / folder, metadata));
    ROLL_TRY_VOID(write_common(directory / folder / "common.pt", [&](formats::PickleWriter& out) {
        formats::write_entries(out, optimizer);
    }));
    return write_dist_head(std::move(metadata), {}, directory / folder);
}

// Writes the metadata and the three objects that Megatron reads first: args, checkpoint_version and
// iteration.
Result<void> finish_fsdp_dtensor(const Plan& plan, const Json& args, const fs::path& directory) {
    using Writer = std::function<void(formats::PickleWriter&)>;
    const std::pair<const char*, Writer> states[] = {
        {"args", [&](formats::PickleWriter& out) { formats::write_namespace(out, args); }},
        {"checkpoint_version", [](formats::PickleWriter& out) { out.number(3.0); }},
        {"iteration", [](formats::PickleWriter& out) { out.integer(0); }}};
    std::vector<formats::DcpObject> objects;
    for (const auto& [name, write] : states) {
        formats::PickleWriter out;
        write(out);
        const std::string file = fmt::format("__0_{}.distcp", objects.size() + 1);
        const fs::path path = directory / kIteration / file;
        ROLL_TRY_VOID(formats::write_torch_pickle(path, std::move(out).finish()));
        std::error_code error;
        objects.push_back({name, {file, 0, static_cast<std::int64_t>(fs::file_size(path, error))}});
    }
    return finish_dcp(plan, std::move(objects), directory / kIteration);
}

Result<void> finish_dcp(const Plan& plan, std::vector<formats::DcpObject> objects,
                        const fs::path& directory,
                        const std::map<std::string, tensor::Shape>& originals) {
    ROLL_TRY(formats::DcpMetadata metadata, metadata_of(plan));
    metadata.objects = std::move(objects);
    for (formats::DcpTensor& tensor : metadata.tensors)
        if (const auto own = originals.find(tensor.info.name); own != originals.end())
            tensor.original = own->second;
    return write_metadata(metadata, directory);
}

}  // namespace roll::convert
