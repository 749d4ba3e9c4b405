#include "worker/train/model_setup.hpp"

#include <algorithm>
#include <map>

#include <ATen/Parallel.h>

#include "common/files.hpp"
#include "worker/convert/gather.hpp"
#include "worker/convert/mca_layout.hpp"
#include "worker/families/families.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/formats/hf.hpp"
#include "worker/train/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kReadBytes = 1 << 20;  // by a thread at least

tensor::DType dtype_of(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
}

[[noreturn]] void refuse(const std::string& sentence) { throw RankFailure(2, sentence); }

void check_sizes(const spec::TrainSpec& spec, const ModelSetup& setup) {
    const spec::ModelConfig& config = setup.config;
    const std::int64_t ids = setup.tokenizer->tokenizer.vocab_size();
    if (config.vocab < ids && spec.tokenizer == "bytes")
        refuse("model.vocab_size: " + std::to_string(config.vocab) +
               " is too small for the tokenizer bytes, which needs 256");
    if (config.vocab < ids)
        refuse("tokenizer: " + spec.tokenizer + " has ids up to " + std::to_string(ids - 1) +
               ", but the model's embedding has " + std::to_string(config.vocab) +
               " rows; name the tokenizer that belongs to the model");
    if (spec.seq_length > config.positions_max)
        refuse("train.seq_length: " + std::to_string(spec.seq_length) +
               " is more than model.max_position_embeddings " +
               std::to_string(config.positions_max));
}

std::shared_ptr<const tokenizer::TextTokenizer> shared(tokenizer::TextTokenizer tokenizer) {
    return std::make_shared<const tokenizer::TextTokenizer>(std::move(tokenizer));
}

void take_bytes_tokenizer(ModelSetup& setup) {
    setup.tokenizer = shared(tokenizer::bytes_tokenizer());
    setup.companions = formats::bytes_tokenizer_files();
    formats::mark_bytes_tokenizer(setup.hf_config);
}

void take_tokenizer(ModelSetup& setup, const fs::path& directory) {
    setup.tokenizer = shared(need(tokenizer::load_directory(directory)));
    formats::unmark_bytes_tokenizer(setup.hf_config);
    for (const std::string& name : formats::companion_files(directory))
        setup.companions.emplace_back(name, need(read_file(directory / name)));
}

// The directory that the job names, or the first of its checkpoints that holds a copy.
void give_tokenizer(ModelSetup& setup, const spec::TrainSpec& spec,
                    const std::vector<fs::path>& checkpoints) {
    const bool models_own = spec.tokenizer == spec.model.from;
    if (spec.tokenizer == "bytes" || (models_own && formats::has_bytes_tokenizer(setup.hf_config)))
        return take_bytes_tokenizer(setup);
    std::vector<fs::path> places = {spec.tokenizer};
    places.insert(places.end(), checkpoints.begin(), checkpoints.end());
    for (const fs::path& place : places)
        if (tokenizer::has_tokenizer(place)) return take_tokenizer(setup, place);
    refuse("tokenizer: " + spec.tokenizer +
           " has no tokenizer.json; name a directory that has one, or bytes");
}

// A whole config from sizes alone; what they leave out about tokens, the tokenizer says.
Json complete(const families::Family& family, Json sizes,
              const tokenizer::TextTokenizer& tokenizer) {
    if (!sizes.contains("vocab_size")) sizes["vocab_size"] = tokenizer.tokenizer.vocab_size();
    Json config = need(families::complete_hf_config(family, sizes));
    if (tokenizer.bos) config["bos_token_id"] = *tokenizer.bos;
    if (tokenizer.eos) config["eos_token_id"] = *tokenizer.eos;
    return config;
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
    const at::Tensor host = weight.is_cpu() ? weight : at::empty_like(weight, at::kCPU);
    auto* to = static_cast<std::byte*>(host.data_ptr());
    const std::int64_t rows = weight.dim() == 0 ? 1 : weight.size(0);
    const std::int64_t row_bytes = static_cast<std::int64_t>(weight.nbytes()) / rows;
    const auto read = [&](std::int64_t begin, std::int64_t end) {
        convert::gather_rows(source, target, begin, end, to + begin * row_bytes);
    };
    at::parallel_for(0, rows, std::max<std::int64_t>(1, kReadBytes / row_bytes), read);
    convert::release(source, target);
    if (!weight.is_cpu()) weight.copy_(host);
    return {};
}

Result<ModelSetup> read_model(const fs::path& directory, const families::Families& families) {
    ROLL_TRY(const convert::Source source, convert::open_source(directory, families));
    auto config = families::model_config(*source.family, source.config.native);
    if (!config)
        return fail(config.error().code, directory.string() + ": " + config.error().message);
    return ModelSetup{source.config.hf_config, source.config.native, *config, nullptr, {}};
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
    ModelSetup setup;
    if (!spec.model.from.empty()) {
        setup = need(given_model(spec.model.from, checkpoints, families));
        give_tokenizer(setup, spec, checkpoints);
    } else {
        const families::Family* family = need(families.find(spec.model.family));
        give_tokenizer(setup, spec, checkpoints);
        setup.hf_config.update(
            complete(*family, need(parse_json(spec.model.hf_config)), *setup.tokenizer));
        setup.native = need(families::native_config(*family, setup.hf_config));
        setup.config = need(families::model_config(*family, setup.native));
    }
    check_sizes(spec, setup);
    return setup;
}

ModelSetup setup_model(const fs::path& directory) {
    ModelSetup setup = need(read_model(directory, need(families::Families::load())));
    if (formats::has_bytes_tokenizer(setup.hf_config)) {
        take_bytes_tokenizer(setup);
    } else if (tokenizer::has_tokenizer(directory)) {
        take_tokenizer(setup, directory);
    }
    return setup;
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
