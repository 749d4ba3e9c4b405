#include "worker/train/model_setup.hpp"

#include <cstring>
#include <map>

#include "worker/convert/gather.hpp"
#include "worker/convert/mca_layout.hpp"
#include "worker/families/families.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteValues = 256;

tensor::DType dtype_of(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
}

[[noreturn]] void refuse(const std::string& sentence) { throw RankFailure(2, sentence); }

void check_sizes(const spec::TrainSpec& spec, const spec::ModelConfig& config) {
    if (spec.tokenizer != "bytes")
        refuse("tokenizer: " + spec.tokenizer + " is not built yet; only bytes is");
    if (config.vocab < kByteValues)
        refuse("model.vocab_size: " + std::to_string(config.vocab) +
               " is too small for the tokenizer bytes, which needs 256");
    if (spec.seq_length > config.positions_max)
        refuse("train.seq_length: " + std::to_string(spec.seq_length) +
               " is more than model.max_position_embeddings " +
               std::to_string(config.positions_max));
}

// Where each native tensor's bytes go, by name.
std::map<std::string, at::Tensor> by_name(Parameters& parameters) {
    std::map<std::string, at::Tensor> result;
    for (std::size_t i = 0; i < parameters.specs.size(); ++i)
        result[parameters.specs[i].name] = parameters.weight[i];
    return result;
}

Result<void> read_into(const convert::Source& source, const convert::TargetTensor& target,
                       const at::Tensor& weight) {
    if (weight.sizes() != at::IntArrayRef(target.info.shape)) {
        return fail(ErrorCode::InvalidArgument,
                    source.directory.string() + ": " + target.info.name + " has shape " +
                        tensor::to_string(target.info.shape) + "; the job's model has another");
    }
    auto* to = static_cast<std::byte*>(weight.data_ptr());
    return convert::gather(source, target, [&](std::span<const std::byte> window) -> Result<void> {
        std::memcpy(to, window.data(), window.size());
        to += window.size();
        return {};
    });
}

Result<ModelSetup> read_model(const fs::path& directory, const families::Families& families) {
    ROLL_TRY(const convert::Source source, convert::open_source(directory, families));
    auto config = families::model_config(*source.family, source.config.native);
    if (!config)
        return fail(config.error().code, directory.string() + ": " + config.error().message);
    return ModelSetup{source.config.hf_config, source.config.native, *config};
}

Result<ModelSetup> given_model(const fs::path& from, const std::vector<fs::path>& checkpoints,
                               const families::Families& families) {
    for (const fs::path& checkpoint : checkpoints) {
        if (auto model = read_model(checkpoint, families)) return model;
    }
    return read_model(from, families);
}

}  // namespace

ModelSetup setup_model(const spec::TrainSpec& spec, const std::vector<fs::path>& checkpoints) {
    const families::Families families = need(families::Families::load());
    if (!spec.model.from.empty()) {
        ModelSetup given = need(given_model(spec.model.from, checkpoints, families));
        check_sizes(spec, given.config);
        formats::mark_bytes_tokenizer(given.hf_config);
        return given;
    }
    const families::Family* family = need(families.find(spec.model.family));
    ModelSetup setup;
    setup.hf_config =
        need(families::complete_hf_config(*family, need(parse_json(spec.model.hf_config))));
    setup.native = need(families::native_config(*family, setup.hf_config));
    setup.config = need(families::model_config(*family, setup.native));
    check_sizes(spec, setup.config);
    formats::mark_bytes_tokenizer(setup.hf_config);
    return setup;
}

ModelSetup setup_model(const fs::path& directory) {
    return need(read_model(directory, need(families::Families::load())));
}

void load_weights(const fs::path& directory, Parameters& parameters) {
    const families::Families families = need(families::Families::load());
    const convert::Source source = need(convert::open_source(directory, families));
    formats::McaConfig whole = source.config;
    whole.layout = {};
    whole.local_names = false;
    const auto layout = need(convert::mca_layout(source.native, source.model, whole));
    const convert::Plan plan =
        need(convert::make_plan(source, layout, dtype_of(parameters.flat_weight)));
    std::map<std::string, at::Tensor> weights = by_name(parameters);
    for (const convert::TargetTensor& target : plan.tensors) {
        const auto weight = weights.find(target.info.name);
        if (weight == weights.end())
            throw RankFailure(2,
                              directory.string() + ": the job's model has no " + target.info.name);
        need(read_into(source, target, weight->second));
        weights.erase(weight);
    }
    if (!weights.empty())
        throw RankFailure(2, directory.string() + " has no " + weights.begin()->first);
}

}  // namespace roll::train
