#include "worker/convert/write/nemo.hpp"

#include "common/files.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/older_layouts.hpp"
#include "worker/formats/nemo.hpp"

namespace roll::convert {

Result<std::vector<Stored>> nemo_layout(const Source& source, const formats::McaConfig& config) {
    const formats::McaLayout& layout = config.layout;
    if (layout.pp > 1 || layout.vpp > 1 || layout.ep > 1)
        return fail(ErrorCode::InvalidArgument,
                    "a NeMo target can be split only by tp; pp " + std::to_string(layout.pp) +
                        ", vpp " + std::to_string(layout.vpp) + " and ep " +
                        std::to_string(layout.ep) +
                        " must be 1, because NeMo splits pipelines and experts when it reads the "
                        "checkpoint");
    ROLL_TRY_VOID(check_whole_groups(config));
    formats::McaConfig plain = config;
    plain.local_names = false;
    ROLL_TRY(std::vector<Stored> stored, mca_layout(source.native, source.model, plain));
    stored = with_gate_apart(std::move(stored));
    for (Stored& one : stored) {
        if (is_qkv(one)) order_by_part(one);
        const std::string name = formats::nemo_name(one.name);
        if (name.empty())
            return fail(
                ErrorCode::InvalidArgument,
                "a NeMo target has no name for " + one.name + " of family " + source.family->name,
                "use --to megatron or --to torch_dist");
        one.name = name;
        one.section.clear();
        const std::filesystem::path rank = std::filesystem::path(one.file).parent_path().filename();
        one.file = (layout.tp > 1 ? rank / "model_weights.ckpt" : "model_weights.ckpt").string();
    }
    return stored;
}

Result<void> write_nemo_configs(const formats::McaConfig& config, const std::string& name,
                                const std::filesystem::path& directory) {
    const formats::NemoFiles files = formats::nemo_configs(config, name);
    ROLL_TRY_VOID(
        write_file_atomically(directory / ("megatron_" + name + ".yaml"), files.training));
    return write_file_atomically(directory / "model_config.yaml", files.model);
}

}  // namespace roll::convert
