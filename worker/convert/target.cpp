#include "worker/convert/target.hpp"

#include <numeric>
#include <set>
#include <tuple>

#include "common/check.hpp"
#include "common/files.hpp"
#include "common/tensor/output_file.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/convert/companions.hpp"
#include "worker/convert/dist_target.hpp"
#include "worker/convert/mca_layout.hpp"
#include "worker/convert/megatron_target.hpp"
#include "worker/convert/nemo_target.hpp"
#include "worker/convert/quantize.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

class SafetensorsWriter : public TargetWriter {
  public:
    SafetensorsWriter(tensor::OutputFile file, std::vector<std::int64_t> begins)
        : file_(std::move(file)),
          next_(std::move(begins)) {}
    Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) override {
        ROLL_TRY_VOID(file_.write_at(next_[ordinal], bytes));
        next_[ordinal] += static_cast<std::int64_t>(bytes.size());
        return {};
    }
    Result<void> finish() override { return file_.finish(); }

  private:
    tensor::OutputFile file_;
    std::vector<std::int64_t> next_;
};

class TorchWriter : public TargetWriter {
  public:
    explicit TorchWriter(formats::TorchFileWriter writer) : writer_(std::move(writer)) {}
    Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) override {
        return writer_.append(ordinal, bytes);
    }
    Result<void> finish() override { return writer_.finish(); }

  private:
    formats::TorchFileWriter writer_;
};

Result<std::unique_ptr<TargetWriter>> create_safetensors(const fs::path& path,
                                                         const TargetFile& file,
                                                         const fs::path& earlier) {
    ROLL_TRY(const tensor::SafetensorsLayout layout,
             tensor::layout_safetensors(file.tensors, {{"format", "pt"}}));
    std::map<std::string_view, std::int64_t> begins;
    for (const tensor::SafetensorsEntry& entry : layout.header.entries)
        begins[entry.info.name] = entry.begin;
    std::vector<std::int64_t> in_order;
    for (const tensor::TensorInfo& info : file.tensors) in_order.push_back(begins.at(info.name));
    ROLL_TRY(tensor::OutputFile output, tensor::OutputFile::create(path, earlier));
    ROLL_TRY_VOID(output.write_at(0, tensor::as_bytes(layout.prefix)));
    return std::make_unique<SafetensorsWriter>(std::move(output), std::move(in_order));
}

// Adds an extra state with the value None for each linear layer. Megatron requires one, although
// only TransformerEngine uses these states.
void add_extra_states(formats::TorchSection& section) {
    std::set<std::string> names;
    for (const tensor::TensorInfo& info : section.tensors) {
        const std::string module = info.name.substr(0, info.name.rfind('.'));
        for (const char* kind : {".linear_qkv", ".linear_proj", ".linear_fc1", ".linear_fc2"})
            if (module.ends_with(kind)) names.insert(module + "._extra_state");
    }
    section.nones.assign(names.begin(), names.end());
}

Result<std::unique_ptr<TargetWriter>> create_torch(const fs::path& path, const TargetFile& file,
                                                   const fs::path& earlier) {
    std::vector<formats::TorchSection> sections;
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
        if (sections.empty() || sections.back().key != file.sections[i])
            sections.push_back({file.sections[i], {}, {}});
        sections.back().tensors.push_back(file.tensors[i]);
    }
    std::function<void(formats::PickleWriter&)> more;
    if (!file.args.is_null()) {
        const bool former = file.megatron_version < 3;
        for (formats::TorchSection& section : sections) {
            section.nested = former;
            if (!former) add_extra_states(section);
        }
        more = [&](formats::PickleWriter& out) {
            formats::write_megatron_state(out, file.args, file.megatron_version);
        };
    }
    ROLL_TRY(auto writer,
             formats::TorchFileWriter::create(path, std::move(sections), more, earlier));
    return std::make_unique<TorchWriter>(std::move(writer));
}

// Returns the layout in the order of safetensors files, because writing a file from beginning to
// end is fastest.
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

// Returns the tensors of a HuggingFace target with their shards. Shards are split by the sizes of
// the source's tensors after the requested cast.
Result<std::vector<Stored>> sharded_hf_layout(const Source& source, const Request& request,
                                              const formats::HfContainer& container) {
    std::vector<Stored> layout = hf_disk_layout(source.model);
    if (request.dtype == kEightBits) layout = with_scales(source, std::move(layout));
    ROLL_TRY(const Plan draft, make_plan(source, layout, request.cast()));
    std::vector<std::int64_t> sizes;
    for (const TargetTensor& target : draft.tensors) {
        ROLL_TRY(const std::int64_t bytes,
                 tensor::byte_count(target.info.dtype, target.info.shape));
        sizes.push_back(bytes);
    }
    const std::vector<int> shards = formats::split_shards(sizes, request.shard_bytes);
    const int count = shards.empty() ? 1 : shards.back() + 1;
    for (std::size_t i = 0; i < layout.size(); ++i)
        layout[i].file = formats::shard_name(container, shards[i], count);
    return in_file_order(std::move(layout), draft);
}

// Sets the exported config's vocabulary size if the native checkpoint has a larger one.
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

Json exported_config(const Source& source, const Plan& plan, const Request& request) {
    Json config = source.config.hf_config;
    formats::set_dtype(config, plan.dtype);
    if (request.dtype == kEightBits) config["quantization_config"] = quantization_of(source, plan);
    set_vocabulary(config, source);
    if (request.model_max_length) {
        config["model_max_length"] = *request.model_max_length;
        config["max_position_embeddings"] = *request.model_max_length;
    }
    return config;
}

Result<void> write_hf_config(const Source& source, const Plan& plan, const Request& request,
                             const fs::path& directory) {
    return write_file_atomically(directory / "config.json",
                                 exported_config(source, plan, request).dump(2) + "\n");
}

Result<void> write_hf_companions(const Source& source, const Plan& plan, const Request& request,
                                 const formats::HfContainer& container, const fs::path& directory) {
    ROLL_TRY_VOID(write_hf_config(source, plan, request, directory));
    if (plan.files.size() <= 1) return {};
    std::map<std::string, std::string> weight_map;
    for (const TargetTensor& target : plan.tensors)
        weight_map[target.info.name] = plan.files[target.file].path;
    return write_file_atomically(directory / formats::index_name(container),
                                 formats::index_text(weight_map, plan.bytes, plan.parameters));
}

formats::McaConfig mca_config_of(const Source& source, const Request& request) {
    formats::McaConfig config = source.config;
    config.layout = request.layout;
    config.grouped_experts = request.grouped_experts.value_or(config.grouped_experts);
    config.local_names = request.local_names.value_or(config.local_names);
    config.padded_vocab = 0;
    if (request.vocab_divisor > 0) {  // pads the vocabulary as Megatron does
        const std::int64_t unit = request.vocab_divisor * request.layout.tp;
        const auto tokens = config.native.value("padded_vocab_size", std::int64_t{0});
        config.padded_vocab = (tokens + unit - 1) / unit * unit;
        config.native["vocab_size"] = tokens;
        config.native["padded_vocab_size"] = config.padded_vocab;
    }
    return config;
}

// Returns the config of an fsdp_dtensor target. Like Megatron's own tool, it has no layout and,
// unless requested otherwise, grouped experts.
formats::McaConfig fsdp_config(const Source& source, const Request& request) {
    formats::McaConfig config = mca_config_of(source, request);
    config.layout = {};
    config.grouped_experts = request.grouped_experts.value_or(true);
    return config;
}

Result<std::vector<Stored>> layout_of(const Source& source, const Request& request, Format to) {
    switch (to) {
        case Format::Hf: return sharded_hf_layout(source, request, formats::kSafetensors);
        case Format::Bin: return sharded_hf_layout(source, request, formats::kTorchFiles);
        case Format::Mca:
            return mca_layout(source.native, source.model, mca_config_of(source, request));
        case Format::Megatron:
            return megatron_layout(source, mca_config_of(source, request),
                                   request.megatron_version);
        case Format::DeepSpeed:
            return fail(ErrorCode::InvalidArgument, "DeepSpeed checkpoints can only be a source");
        case Format::Peft:
            return fail(ErrorCode::InvalidArgument, "a model cannot be converted to a LoRA adapter",
                        "give the adapters to convert with --adapter DIR");
        case Format::Nemo: return nemo_layout(source, mca_config_of(source, request));
        case Format::TorchDist: return torch_dist_layout(source, mca_config_of(source, request));
        case Format::Dcp: return dcp_layout(source);
        case Format::FsdpDtensor: return fsdp_dtensor_layout(source, fsdp_config(source, request));
    }
    ROLL_CHECK(false);
}

}  // namespace

Result<std::vector<Stored>> target_layout(const Source& source, const Request& request, Format to) {
    const bool pads = to == Format::Mca || to == Format::Megatron || to == Format::Nemo;
    if (request.vocab_divisor > 0 && !pads)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--make-vocab-size-divisible-by is for mca, megatron and nemo "
                                "targets, not ") +
                        name_of(to));
    if (request.dtype == kEightBits && to != Format::Hf && to != Format::Bin)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--dtype fp8 is for hf and bin targets; ") + name_of(to) +
                        " has no scales");
    if (request.megatron_version < 3 && to != Format::Megatron)
        return fail(
            ErrorCode::InvalidArgument,
            std::string("--checkpoint-version is for megatron targets, not ") + name_of(to));
    const bool names_mtp = to == Format::TorchDist || to == Format::Mca ||
                           (to == Format::Megatron && request.megatron_version == 3);
    if (request.newer_mtp_names && !names_mtp)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--mtp-layer-name is for mca, megatron and torch_dist targets, "
                                "not ") +
                        name_of(to));
    ROLL_TRY(std::vector<Stored> layout, layout_of(source, request, to));
    if (request.newer_mtp_names)
        for (Stored& stored : layout) stored.name = newer_spelling(stored.name);
    return layout;
}

void complete_plan(const Source& source, const Request& request, Format to, Plan& plan) {
    if (to != Format::Megatron) return;
    Json args = formats::megatron_args(mca_config_of(source, request), plan.dtype);
    if (request.megatron_version < 3) {
        args["use_legacy_models"] = true;
        args["transformer_impl"] = "local";
    }
    for (TargetFile& file : plan.files) {
        file.args = args;
        file.megatron_version = request.megatron_version;
    }
}

Result<void> write_companions(const Source& source, const Plan& plan, const Request& request,
                              Format to, const fs::path& directory) {
    ROLL_TRY_VOID(write_companion_files(source, directory));
    switch (to) {
        case Format::Hf:
            return write_hf_companions(source, plan, request, formats::kSafetensors, directory);
        case Format::Bin:
            return write_hf_companions(source, plan, request, formats::kTorchFiles, directory);
        case Format::Mca:
            return formats::write_mca_root(directory, mca_config_of(source, request), plan.dtype);
        case Format::Megatron:
            ROLL_TRY_VOID(write_hf_config(source, plan, request, directory));
            return write_file_atomically(directory / "latest_checkpointed_iteration.txt",
                                         kMegatronRelease);
        case Format::DeepSpeed:
        case Format::Peft: break;  // impossible, because target_layout() refused it
        case Format::Nemo:
            ROLL_TRY_VOID(write_hf_config(source, plan, request, directory));
            return write_nemo_configs(mca_config_of(source, request), request.name, directory);
        case Format::TorchDist: {
            formats::McaConfig config = mca_config_of(source, request);
            config.layout = {};
            ROLL_TRY_VOID(formats::write_mca_root(directory, config, plan.dtype));
            return finish_torch_dist(plan, formats::megatron_args(config, plan.dtype), directory);
        }
        case Format::FsdpDtensor: {
            const formats::McaConfig config = fsdp_config(source, request);
            ROLL_TRY_VOID(formats::write_mca_root(directory, config, plan.dtype));
            return finish_fsdp_dtensor(plan, formats::megatron_args(config, plan.dtype), directory);
        }
        case Format::Dcp:
            ROLL_TRY_VOID(write_hf_config(source, plan, request, directory));
            return finish_dcp(plan, {}, directory);
    }
    ROLL_CHECK(false);
}

Result<std::unique_ptr<TargetWriter>> create_target(const fs::path& directory,
                                                    const TargetFile& file, const fs::path& reuse) {
    const fs::path path = directory / file.path;
    const fs::path earlier = reuse.empty() ? fs::path() : reuse / file.path;
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    if (path.extension() == ".safetensors") return create_safetensors(path, file, earlier);
    return path.extension() == ".distcp" ? create_distcp(path, file, earlier)
                                         : create_torch(path, file, earlier);
}

}  // namespace roll::convert
