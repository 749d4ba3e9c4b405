#include "worker/convert/write/target.hpp"

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/plan/quantize.hpp"
#include "worker/convert/write/dist.hpp"
#include "worker/convert/write/files.hpp"
#include "worker/convert/write/hf.hpp"
#include "worker/convert/write/megatron.hpp"
#include "worker/convert/write/nemo.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

formats::McaConfig mca_config_of(const Source& source, const Output& output) {
    formats::McaConfig config = source.config;
    config.layout = output.layout;
    config.grouped_experts = output.grouped_experts.value_or(config.grouped_experts);
    config.local_names = output.local_names.value_or(config.local_names);
    config.padded_vocab = 0;
    config.native.erase(kKeptField);
    if (!source.model.kept.empty()) config.native[kKeptField] = true;
    if (output.vocab_divisor > 0) {  // pad the vocabulary as Megatron does
        const std::int64_t unit = output.vocab_divisor * output.layout.tp;
        const auto tokens = config.native.value("padded_vocab_size", std::int64_t{0});
        config.padded_vocab = (tokens + unit - 1) / unit * unit;
        config.native["vocab_size"] = tokens;
        config.native["padded_vocab_size"] = config.padded_vocab;
    }
    return config;
}

// Returns the config of an fsdp_dtensor target. The config has no layout, like the config that
// Megatron's own tool writes. The experts are grouped, unless `output` requests otherwise.
formats::McaConfig fsdp_config(const Source& source, const Output& output) {
    formats::McaConfig config = mca_config_of(source, output);
    config.layout = {};
    config.grouped_experts = output.grouped_experts.value_or(true);
    return config;
}

// Returns the layout of an mca target: Megatron's tensors, and the tensors that Megatron cannot
// name.
Result<std::vector<Stored>> mca_target_layout(const Source& source, const Output& output) {
    ROLL_TRY(std::vector<Stored> layout,
             mca_layout(source.native, source.model, mca_config_of(source, output)));
    for (const int number : source.model.kept) {
        layout.push_back(whole_tensor(source.model, number));
        layout.back().file = kKeptFile;
    }
    return layout;
}

// Fails if the source has tensors that Megatron cannot name and the target's format cannot store
// them.
Result<void> check_kept(const Source& source, Format to) {
    if (source.model.kept.empty()) return {};
    if (to == Format::Hf || to == Format::Bin || to == Format::Mca) return {};
    const int first = *source.model.kept.begin();
    return fail(ErrorCode::InvalidArgument,
                source.model.tensors[static_cast<std::size_t>(first)].name +
                    " differs from the model's own embedding or output layer; Megatron has no "
                    "such tensor, and the format " +
                    name_of(to) + " cannot store this tensor; allowed targets: hf, bin, mca");
}

Result<std::vector<Stored>> layout_of(const Source& source, const Output& output, Format to) {
    switch (to) {
        case Format::Hf: return sharded_hf_layout(source, output, formats::kSafetensors);
        case Format::Bin: return sharded_hf_layout(source, output, formats::kTorchFiles);
        case Format::Mca: return mca_target_layout(source, output);
        case Format::Megatron:
            return megatron_layout(source, mca_config_of(source, output), output.megatron_version);
        case Format::DeepSpeed:
            return fail(
                ErrorCode::InvalidArgument,
                "Roll reads DeepSpeed checkpoints but cannot write them; choose another --to");
        case Format::Peft:
            return fail(ErrorCode::InvalidArgument, "a model cannot be converted to a LoRA adapter",
                        "give the adapters to convert with --adapter DIR");
        case Format::Nemo: return nemo_layout(source, mca_config_of(source, output));
        case Format::TorchDist: return torch_dist_layout(source, mca_config_of(source, output));
        case Format::Dcp: return dcp_layout(source);
        case Format::FsdpDtensor: return fsdp_dtensor_layout(source, fsdp_config(source, output));
    }
    ROLL_CHECK(false);
}

}  // namespace

Result<std::vector<Stored>> target_layout(const Source& source, const Output& output, Format to) {
    const bool pads = to == Format::Mca || to == Format::Megatron || to == Format::Nemo ||
                      (to == Format::TorchDist && output.in_buckets());
    if (output.vocab_divisor > 0 && !pads)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--make-vocab-size-divisible-by is for mca, megatron and nemo "
                                "targets, and for torch_dist targets with --optimizer-kind "
                                "dp_reshardable, not ") +
                        name_of(to));
    if (output.dtype == kEightBits && to != Format::Hf && to != Format::Bin)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--dtype fp8 is for hf and bin targets; ") + name_of(to) +
                        " has no scales");
    if (output.megatron_version < 3 && to != Format::Megatron)
        return fail(
            ErrorCode::InvalidArgument,
            std::string("--checkpoint-version is for megatron targets, not ") + name_of(to));
    const bool names_mtp = to == Format::TorchDist || to == Format::Mca ||
                           (to == Format::Megatron && output.megatron_version == 3);
    if (output.newer_mtp_names && !names_mtp)
        return fail(ErrorCode::InvalidArgument,
                    std::string("--mtp-layer-name is for mca, megatron and torch_dist targets, "
                                "not ") +
                        name_of(to));
    ROLL_TRY_VOID(check_kept(source, to));
    ROLL_TRY(std::vector<Stored> layout, layout_of(source, output, to));
    if (output.newer_mtp_names)
        for (Stored& stored : layout) stored.name = newer_spelling(stored.name);
    return layout;
}

namespace {

// Returns the type of the model's weights in the target. Fails with InvalidArgument if the weights
// have several types, because Megatron would have a buffer of gradients for each type.
Result<tensor::DType> weights_dtype(const Source& source, const Output& output,
                                    std::size_t model_tensors) {
    if (output.cast()) return *output.cast();
    const SourceTensor* first = nullptr;
    for (const SourceTensor& one : source.tensors) {
        const auto& pieces = one.stored.pieces;
        if (pieces.empty() || static_cast<std::size_t>(pieces.front().hf) >= model_tensors)
            continue;
        if (first == nullptr) first = &one;
        if (one.view.info.dtype != first->view.info.dtype)
            return fail(ErrorCode::InvalidArgument,
                        "the optimizer's kind dp_reshardable requires weights of one type; " +
                            first->view.info.name + " is of type " +
                            name_of(first->view.info.dtype) + ", and " + one.view.info.name +
                            " is of type " + name_of(one.view.info.dtype),
                        "choose one type with --dtype");
    }
    ROLL_CHECK(first != nullptr);
    return first->view.info.dtype;
}

}  // namespace

Result<std::vector<Stored>> optimizer_layout(const Source& source, const Output& output, Format to,
                                             std::size_t model_tensors,
                                             std::optional<BucketSizes>& sizes) {
    const formats::McaConfig config = mca_config_of(source, output);
    std::vector<Stored> layout;
    if (output.in_buckets()) {
        BucketRule rule{.size = output.bucket_size, .gradients = output.grad_dtype};
        ROLL_TRY(rule.weights, weights_dtype(source, output, model_tensors));
        ROLL_TRY(BucketLayout buckets, optimizer_buckets(source, config, rule, to == Format::Mca));
        sizes = std::move(buckets.sizes);
        layout = std::move(buckets.tensors);
    } else {
        ROLL_TRY(layout, to == Format::Mca ? roll_optimizer_layout(source, config)
                                           : torch_dist_layout(source, config));
    }
    if (output.newer_mtp_names)
        for (Stored& stored : layout) stored.name = newer_spelling(stored.name);
    return layout;
}

void complete_plan(const Source& source, const Output& output, Format to, Plan& plan) {
    if (to != Format::Megatron) return;
    Json args = formats::megatron_args(mca_config_of(source, output), plan.dtype);
    if (output.megatron_version < 3) {
        args["use_legacy_models"] = true;
        args["transformer_impl"] = "local";
    }
    for (TargetFile& file : plan.files) {
        file.args = args;
        file.megatron_version = output.megatron_version;
    }
}

Result<void> write_companions(const Source& source, const Plan& plan, const Output& output,
                              Format to, const fs::path& directory) {
    ROLL_TRY_VOID(write_companion_files(source, directory));
    switch (to) {
        case Format::Hf:
            return write_hf_companions(source, plan, output, formats::kSafetensors, directory);
        case Format::Bin:
            return write_hf_companions(source, plan, output, formats::kTorchFiles, directory);
        case Format::Mca:
            if (!plan.optimizer.is_null()) ROLL_TRY_VOID(finish_roll_optimizer(plan, directory));
            return formats::write_mca_root(directory, mca_config_of(source, output), plan.dtype);
        case Format::Megatron:
            ROLL_TRY_VOID(write_hf_config(source, plan, output, directory));
            return write_file_atomically(directory / "latest_checkpointed_iteration.txt",
                                         kMegatronRelease);
        case Format::DeepSpeed:
        case Format::Peft: break;  // impossible, because target_layout() refused these formats
        case Format::Nemo:
            ROLL_TRY_VOID(write_hf_config(source, plan, output, directory));
            return write_nemo_configs(mca_config_of(source, output), output.name, directory);
        case Format::TorchDist: {
            Output whole = output;  // the weights do not depend on a layout
            whole.layout = {};
            whole.vocab_divisor = 0;
            const formats::McaConfig config = mca_config_of(source, whole);
            ROLL_TRY_VOID(formats::write_mca_root(directory, config, plan.dtype));
            // Buckets can be read only with the layout in the run's arguments.
            const formats::McaConfig run = plan.buckets ? mca_config_of(source, output) : config;
            return finish_torch_dist(plan, formats::megatron_args(run, plan.dtype), directory);
        }
        case Format::FsdpDtensor: {
            const formats::McaConfig config = fsdp_config(source, output);
            ROLL_TRY_VOID(formats::write_mca_root(directory, config, plan.dtype));
            return finish_fsdp_dtensor(plan, formats::megatron_args(config, plan.dtype), directory);
        }
        case Format::Dcp:
            ROLL_TRY_VOID(write_hf_config(source, plan, output, directory));
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
