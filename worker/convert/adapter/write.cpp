#include "worker/convert/adapter/write.hpp"

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/convert/adapter/adapter.hpp"
#include "worker/convert/adapter/config.hpp"
#include "worker/convert/adapter/diff.hpp"
#include "worker/convert/adapter/experts.hpp"
#include "worker/convert/adapter/tensors.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/read/archives.hpp"
#include "worker/convert/write/carry_out.hpp"
#include "worker/convert/write/dist.hpp"
#include "worker/convert/write/files.hpp"
#include "worker/convert/write/staging.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using formats::Adapter;

std::vector<std::string> modules_with_weights(const Source& base, bool native) {
    std::vector<std::string> modules;
    for (const families::NativeTensor& tensor : base.native) {
        if (!tensor.name.ends_with(".weight") || tensor.shape.size() != 2) continue;
        if (native)
            modules.push_back(module_of(tensor.name));
        else
            for (const families::HfTensor& source : tensor.sources)
                modules.push_back(module_of(source.name));
    }
    return modules;
}

// Totals of the written data of all adapters.
struct Written {
    std::size_t tensors = 0;
    std::size_t files = 0;
    std::int64_t bytes = 0;
    std::int64_t parameters = 0;
    tensor::DType dtype = tensor::DType::F32;
};

// Writes the adapter's config and adds the plan to the totals.
Result<void> write_config(const Json& config, const Plan& plan, const fs::path& directory,
                          Written& written) {
    written.tensors += plan.tensors.size();
    written.files += plan.files.size();
    written.bytes += plan.bytes;
    written.parameters += plan.parameters;
    written.dtype = plan.dtype;
    return write_file_atomically(directory / "adapter_config.json", config.dump(2) + "\n");
}

Result<void> write_peft(const Adapter& adapter, const Source& base, const Output& output,
                        const Run& run, const fs::path& directory, const Hooks& hooks,
                        Written& written) {
    const Adapter joined = join_experts(adapter, base);
    const Source source = source_of(peft_tensors(joined));
    std::vector<Stored> layout = hf_layout(source.model);
    for (Stored& stored : layout) stored.file = kPeftFile;
    ROLL_TRY(const Plan plan, make_plan(source, layout, output.dtype));
    ROLL_TRY_VOID(carry_out(source, plan, directory, run, hooks));
    std::vector<NativeLora> modules;
    for (const formats::LoraModule& one : joined.modules)
        modules.push_back({one.module, one.a.info.shape[0], one.scale});
    std::vector<std::string> all = modules_with_weights(base, false);
    for (const formats::LoraModule& one : joined.stacked) {
        modules.push_back({one.parameter, one.lora_rank, one.scale, true});
        all.push_back(one.parameter);
    }
    std::vector<std::string> whole;
    for (const tensor::StridedView& view : adapter.whole)
        whole.push_back(module_of(view.info.name));
    ROLL_TRY(const Json config, adapter_config(adapter.config, modules, whole, all, false));
    ROLL_TRY_VOID(write_config(config, plan, directory, written));
    if (!run.verify) return {};
    return check_written(adapter, source_of(peft_tensors(adapter)), {"", directory, false}, base,
                         hooks.stopped);
}

formats::McaConfig layout_config(const Source& base, const Output& output) {
    formats::McaConfig config = base.config;
    config.layout = output.layout;
    config.grouped_experts = output.grouped_experts.value_or(config.grouped_experts);
    config.local_names = output.local_names.value_or(config.local_names);
    return config;
}

// Writes a native adapter. It consists of rank files or, in a distributed checkpoint, of one file
// that does not depend on ranks.
Result<void> write_native(const Adapter& adapter, const Source& base, const Output& output,
                          const Run& run, const fs::path& directory, const Hooks& hooks,
                          Written& written) {
    const bool distributed = output.to == Format::TorchDist;
    ROLL_TRY(NativeAdapter native, to_native(adapter, base));
    formats::McaConfig config = layout_config(base, output);
    if (distributed) config.layout = {};
    ROLL_TRY(const auto layout,
             distributed ? torch_dist_layout(native.source, config)
                         : mca_layout(native.source.native, native.source.model, config));
    ROLL_TRY(const Plan plan, make_plan(native.source, layout, output.dtype));
    ROLL_TRY_VOID(carry_out(native.source, plan, directory, run, hooks));
    ROLL_TRY_VOID(formats::write_mca_root(directory, config, plan.dtype));
    if (distributed)
        ROLL_TRY_VOID(
            finish_torch_dist(plan, formats::megatron_args(config, plan.dtype), directory));
    ROLL_TRY(Json written_config, adapter_config(adapter.config, native.modules, native.whole,
                                                 modules_with_weights(base, true),
                                                 config.layout.pp > 1 || config.layout.vpp > 1));
    if (const Json parameters = adapter.config.value(kParameters, Json()); !parameters.empty())
        written_config[kParametersKept] = parameters;
    ROLL_TRY_VOID(write_config(written_config, plan, directory, written));
    if (!run.verify) return {};
    return check_written(adapter, native.source, {"", directory, true}, base, hooks.stopped);
}

Result<void> write_root(const Source& base, const Output& output, Format to, tensor::DType dtype,
                        const fs::path& directory) {
    ROLL_TRY_VOID(write_companion_files(base, directory));
    if (to != Format::Peft) {
        formats::McaConfig config = layout_config(base, output);
        if (to == Format::TorchDist) config.layout = {};
        return formats::write_mca_root(directory, config, dtype);
    }
    return write_file_atomically(directory / "config.json", base.config.hf_config.dump(2) + "\n");
}

}  // namespace

Result<Report> convert_adapters(const Input& input, const Output& output, const Run& run,
                                const families::Families& families, const Hooks& hooks) {
    const fs::path adapters = input.adapter_source.empty() ? input.source : input.adapter_source;
    const std::vector<AdapterPlace> places = find_adapters(adapters);
    if (places.empty())
        return fail(ErrorCode::NotFound,
                    adapters.string() +
                        " contains no adapter_config.json; give the directory of an adapter");
    for (const AdapterPlace& place : places) ROLL_TRY_VOID(check_matrices(place));
    const fs::path given = input.adapter_source.empty() ? fs::path() : input.source;
    ROLL_TRY(const Source base, open_base(given, input.config, adapters, families));
    const Format from = places.front().native ? Format::Mca : Format::Peft;
    const Format to = output.to.value_or(from == Format::Mca ? Format::Peft : Format::Mca);
    if (to != Format::Peft && to != Format::Mca && to != Format::TorchDist)
        return fail(ErrorCode::InvalidArgument,
                    std::string("adapters can be converted to peft, mca or torch_dist, not to ") +
                        name_of(to));
    if (output.dtype && !output.cast())
        return fail(ErrorCode::InvalidArgument, "--dtype fp8 is only for models, not for adapters");
    if (run.dry_run)
        return fail(ErrorCode::InvalidArgument, "--dry-run is only for models, not for adapters");
    ROLL_TRY(Staging staging, Staging::begin(output.target, run.overwrite));
    Written written;
    for (const AdapterPlace& place : places) {
        if (run.verify) ROLL_TRY_VOID(check_archives(place.directory, hooks.stopped));
        ROLL_TRY(const Adapter adapter, open_adapter(place, base));
        const bool at_root = to == Format::Peft && place.name == "default";
        const fs::path directory = at_root ? staging.directory() : staging.directory() / place.name;
        ROLL_TRY_VOID(make_directories(directory));
        ROLL_TRY_VOID((to == Format::Peft ? write_peft : write_native)(adapter, base, output, run,
                                                                       directory, hooks, written));
    }
    ROLL_TRY_VOID(write_root(base, output, to, written.dtype, staging.directory()));
    if (hooks.stopped()) return fail(ErrorCode::Unavailable, "the conversion was stopped");
    ROLL_TRY_VOID(staging.publish());
    return Report{from,
                  to,
                  base.config.model_type,
                  output.target,
                  written.tensors,
                  written.files,
                  0,
                  written.bytes,
                  written.parameters,
                  written.dtype,
                  {},
                  {},
                  ""};
}

}  // namespace roll::convert
