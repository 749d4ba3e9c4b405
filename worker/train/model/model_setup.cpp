#include "worker/train/model/model_setup.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "common/spec/check/lora_rules.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/families/score.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/formats/hf.hpp"
#include "worker/tokenizer/same_ids.hpp"
#include "worker/train/model/trained_chunks.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& sentence) { throw RankFailure(2, sentence); }

void check_sizes(const spec::TrainSpec& spec, const ModelSetup& setup) {
    const spec::ModelConfig& config = setup.config;
    const std::int64_t ids = setup.tokenizer->tokenizer.vocab_size();
    if (config.vocab < ids && spec.tokenizer == "bytes")
        refuse("model.vocab_size: " + std::to_string(config.vocab) +
               " is too small; the tokenizer `bytes` needs at least 256");
    if (config.vocab < ids)
        refuse("tokenizer: " + spec.tokenizer + " has ids up to " + std::to_string(ids - 1) +
               ", but the model's embedding has " + std::to_string(config.vocab) +
               " rows; set `tokenizer` to the model's own, or raise model.vocab_size to " +
               std::to_string((ids + 63) / 64 * 64));
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

// Sets the tokenizer: the byte tokenizer, or the tokenizer of the directory that the job names. If
// that directory has no tokenizer, sets the tokenizer of the first checkpoint that has one.
void find_tokenizer(ModelSetup& setup, const spec::TrainSpec& spec,
                    const std::vector<fs::path>& checkpoints) {
    const bool models_own = spec.tokenizer == spec.model.from;
    if (spec.tokenizer == "bytes" || (models_own && formats::has_bytes_tokenizer(setup.hf_config)))
        return take_bytes_tokenizer(setup);
    std::vector<fs::path> places = {spec.tokenizer};
    places.insert(places.end(), checkpoints.begin(), checkpoints.end());
    for (const fs::path& place : places)
        if (tokenizer::has_tokenizer(place)) return take_tokenizer(setup, place);
    refuse("tokenizer: " + spec.tokenizer +
           " has no tokenizer.json; set `tokenizer` to a directory that has one, or to the value "
           "`bytes`");
}

// The directory of the weights, and its HuggingFace config.
struct WeightsHome {
    std::filesystem::path directory;
    const Json& hf_config;
};

// Compares `tokenizer`, which the job calls `name`, with the tokenizer next to the weights. Returns
// a warning if the two differ. Returns an empty text if they are equal, or if there is no tokenizer
// next to the weights. Throws RankFailure(invalid) if `tokenizer` has another vocabulary, because
// the trained embeddings would then be meaningless.
std::string check_tokenizer(const tokenizer::TextTokenizer& tokenizer, const std::string& name,
                            const WeightsHome& weights) {
    const std::string home = weights.directory.string();
    if (!tokenizer::has_tokenizer(weights.directory)) return {};
    const bool bytes = formats::has_bytes_tokenizer(weights.hf_config);
    const auto identity = bytes ? tokenizer::bytes_tokenizer().identity
                                : need(tokenizer::identity_of(weights.directory));
    if (identity == tokenizer.identity) return {};
    const auto own = tokenizer::load_directory(weights.directory);
    if (!own)
        return "tokenizer: " + name + " differs from the tokenizer in " + home +
               ", and the tokenizer there cannot be read (" + own.error().message +
               "): a token id may stand for different text in the two tokenizers";
    const auto compared = tokenizer::compare_ids(tokenizer.tokenizer, own->tokenizer);
    const std::string found = std::to_string(compared.differ) + " of " +
                              std::to_string(compared.looked_at) +
                              " compared token ids decode to different text in the two tokenizers";
    if (!compared.of_one_vocabulary())
        throw RankFailure(2, "tokenizer: " + name + " is not the tokenizer of the weights in " +
                                 home + ": " + found + "; set tokenizer to " + home +
                                 ". To train the model to use this tokenizer instead, start from a "
                                 "copy of that directory without tokenizer.json");
    return "tokenizer: " + name + " is not the tokenizer of the weights in " + home + ": " + found;
}

// Sets the job's tokenizer. Warns if the tokenizer of the weights is another one.
void give_tokenizer(ModelSetup& setup, const spec::TrainSpec& spec,
                    const std::vector<fs::path>& checkpoints) {
    const Json given = setup.hf_config;
    find_tokenizer(setup, spec, checkpoints);
    if (spec.model.from.empty() || spec.tokenizer == spec.model.from) return;
    const std::string warning =
        check_tokenizer(*setup.tokenizer, spec.tokenizer, {spec.model.from, given});
    if (!warning.empty()) setup.warnings.push_back(warning);
}

// Returns a complete HuggingFace config for a model that is given only by its sizes. The tokenizer
// supplies the vocabulary size and the ids of special tokens.
Json complete(const families::Family& family, Json sizes,
              const tokenizer::TextTokenizer& tokenizer) {
    if (!sizes.contains("vocab_size")) sizes["vocab_size"] = tokenizer.tokenizer.vocab_size();
    Json config = need(families::complete_hf_config(family, sizes));
    if (tokenizer.bos) config["bos_token_id"] = *tokenizer.bos;
    if (tokenizer.eos) config["eos_token_id"] = *tokenizer.eos;
    return config;
}

// Reads the model of a directory. `changes` has HuggingFace config keys with values. These values
// override those in the directory's config.
Result<ModelSetup> read_model(const fs::path& directory, const families::Families& families,
                              const Json& changes = Json::object(),
                              const convert::OpenOptions& open = {}) {
    ROLL_TRY(convert::Source source, convert::open_source(directory, families, open));
    ROLL_TRY_VOID(
        families::set_keys(*source.family, changes, source.config.hf_config, source.config.native));
    auto config = families::model_config(*source.family, source.config.native);
    if (!config)
        return fail(config.error().code, directory.string() + ": " + config.error().message,
                    config.error().hint);
    return ModelSetup{source.config.hf_config, source.config.native, *config, nullptr, {}};
}

// Enlarges the embedding and the output layer to `rows` rows. load_weights() fills the rows that
// the directory does not have.
void resize_vocabulary(ModelSetup& setup, std::int64_t rows, const families::Families& families) {
    if (rows < setup.config.vocab)
        refuse("model.vocab_size: " + std::to_string(rows) + " is less than the model's " +
               std::to_string(setup.config.vocab) +
               "; rows of the vocabulary are never removed, so set it to that number or more");
    setup.config.vocab = rows;
    const families::Family& family = *need(families.find(setup.hf_config["model_type"]));
    for (const auto& [native, paths] : family.config)
        if (native == "padded_vocab_size")
            need(
                families::set_keys(family, {{paths.front(), rows}}, setup.hf_config, setup.native));
}

bool trains_scores(const spec::TrainSpec& spec) {
    return spec.objective == spec::Objective::Preference && spec.preference.compares_scores();
}

// Makes a reward model: replaces the output layer by a score layer. Changes the HuggingFace config
// to that of the family's model for sequence classification.
void add_score(ModelSetup& setup) {
    if (setup.config.scores) return;
    constexpr std::string_view kOfText = "ForCausalLM";
    const Json names = setup.hf_config.value("architectures", Json::array());
    std::string name = !names.empty() && names.front().is_string() ? names.front() : Json("");
    if (!name.ends_with(kOfText))
        refuse(
            "objective: reward needs a model whose config.json has an architecture that ends in "
            "ForCausalLM or ForSequenceClassification, but `architectures` is " +
            names.dump());
    name.replace(name.size() - kOfText.size(), kOfText.size(), "ForSequenceClassification");
    // A family that also reads images has a separate class for its text model, with "Text" in the
    // name.
    const Json type = setup.hf_config.value("model_type", Json());
    const bool is_text = type.is_string() && type.get<std::string>().ends_with("_text");
    if (is_text && name.find("Text") == std::string::npos) name.insert(name.find("For"), "Text");
    setup.hf_config["architectures"] = {name};
    setup.hf_config["id2label"] = {{"0", "LABEL_0"}};
    setup.hf_config["label2id"] = {{"LABEL_0", 0}};
    families::set_scores(setup.native, 1);
    setup.config.scores = true;
    setup.config.tied = false;
}

// Names a padding token in the config of a reward model, because transformers needs one to find the
// end of each answer in a batch.
void name_padding(ModelSetup& setup) {
    if (setup.hf_config.value("pad_token_id", Json()).is_number_integer()) return;
    if (setup.tokenizer->eos) setup.hf_config["pad_token_id"] = *setup.tokenizer->eos;
}

// Adds the LoRA adapter that the job trains to the model. In a reward model, the job also trains
// the score layer, but without LoRA factors.
void add_lora(ModelSetup& setup, const spec::TrainSpec& spec) {
    const auto modules = families::modules_of(native_tensors(setup));
    const auto problems = spec::lora_target_problems(spec.lora, modules);
    if (!problems.empty()) refuse(problems[0].path + ": " + problems[0].message);
    setup.config.lora = spec::resolve_lora(spec.lora, modules).value();
    std::vector<std::string>& whole = setup.config.lora.modules_to_save;
    if (setup.config.scores && std::ranges::find(whole, "score") == whole.end())
        whole.emplace_back("score");
    setup.base = spec.model.from;
    setup.adapters = spec.model.adapters;
}

// Returns the names and shapes of a model's parameters.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors_of(
    const spec::ModelConfig& config) {
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
    for (const ParameterSpec& spec : parameter_specs(config, whole_chunk(config)))
        tensors.emplace_back(spec.name, spec.sizes);
    return tensors;
}

Result<ModelSetup> given_model(const spec::ModelSource& source,
                               const std::vector<fs::path>& checkpoints,
                               const families::Families& families,
                               const convert::OpenOptions& open) {
    const Json changes = need(parse_json(source.hf_config));
    for (const fs::path& checkpoint : checkpoints) {
        if (auto model = read_model(checkpoint, families, changes)) return model;
    }
    return read_model(source.from, families, changes, open);
}

}  // namespace

std::vector<families::NativeTensor> native_tensors(const ModelSetup& model) {
    const families::Families families = need(families::Families::load_for(model.config.family));
    const families::Family& family = *need(families.find(model.config.family));
    return need(families::native_tensors(family, model.native, model.hf_config));
}

ModelSetup setup_model(const spec::TrainSpec& spec, const std::vector<fs::path>& checkpoints,
                       bool config_suffices) {
    const families::Families families = need(families::Families::load());
    ModelSetup setup;
    if (!spec.model.from.empty()) {
        const bool whole = !spec.lora.is_set();  // true: checkpoints hold the whole model
        setup = of_disk(given_model(spec.model, whole ? checkpoints : std::vector<fs::path>(),
                                    families, {.config_suffices = config_suffices}));
        if (trains_scores(spec)) add_score(setup);
        if (!whole) add_lora(setup, spec);
        if (spec.model.vocab > 0) resize_vocabulary(setup, spec.model.vocab, families);
        give_tokenizer(setup, spec, checkpoints);
    } else {
        const families::Family* family = need(families.find(spec.model.family));
        give_tokenizer(setup, spec, checkpoints);
        setup.hf_config.update(
            complete(*family, need(parse_json(spec.model.hf_config)), *setup.tokenizer));
        setup.native = need(families::native_config(*family, setup.hf_config));
        setup.config = need(families::model_config(*family, setup.native));
        if (trains_scores(spec)) add_score(setup);
    }
    if (setup.config.scores && !trains_scores(spec))
        refuse(
            "model.from: " + spec.model.from +
            " is a reward model, which has a score and no output layer; set objective to reward, "
            "or start from another model");
    if (setup.config.scores) name_padding(setup);
    check_sizes(spec, setup);
    return setup;
}

std::shared_ptr<const tokenizer::TextTokenizer> job_tokenizer(const spec::TrainSpec& spec) {
    ModelSetup setup;
    if (!spec.model.from.empty()) {
        const families::Families families = need(families::Families::load());
        setup.hf_config = of_disk(convert::open_source(spec.model.from, families)).config.hf_config;
    }
    give_tokenizer(setup, spec, {});
    return setup.tokenizer;
}

std::string check_same_model(const fs::path& checkpoint, const ModelSetup& job,
                             const std::string& tokenizer) {
    const families::Families families = need(families::Families::load());
    const ModelSetup saved = of_disk(read_model(checkpoint, families));
    if (tensors_of(saved.config) == tensors_of(job.config))
        return check_tokenizer(*job.tokenizer, tokenizer, {checkpoint, saved.hf_config});
    std::string keys;
    for (const auto& [native, paths] : need(families.find(job.config.family))->config) {
        const Json expected = job.native.value(native, Json());
        const Json found = saved.native.value(native, Json());
        if (expected != found)
            keys += (keys.empty() ? "" : "; ") + ("model." + paths.front()) + " is " +
                    expected.dump() + " in the job and " + found.dump() + " in the checkpoint";
    }
    refuse(checkpoint.string() + " is a checkpoint of another model: " +
           (keys.empty() ? "its family is " + saved.config.family : keys));
}

std::int64_t padding_of(const ModelSetup& model) {
    const Json pad = model.hf_config.value("pad_token_id", Json());
    return model.config.scores && pad.is_number_integer() ? pad.get<std::int64_t>() : -1;
}

ModelSetup setup_model(const fs::path& directory) {
    ModelSetup setup = of_disk(read_model(directory, need(families::Families::load())));
    if (formats::has_bytes_tokenizer(setup.hf_config)) {
        take_bytes_tokenizer(setup);
    } else if (tokenizer::has_tokenizer(directory)) {
        take_tokenizer(setup, directory);
    }
    return setup;
}

std::int64_t count_frozen(const std::vector<std::string>& freeze,
                          std::span<const ParameterSpec> specs) {
    for (const std::string& glob : freeze) {
        const bool used = std::any_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) {
            return matches_any({glob}, spec.name);
        });
        if (!used)
            throw RankFailure(2, "model.freeze: no parameter's name matches " + glob +
                                     "; names are, for example, " + specs.front().name + " and " +
                                     specs[1].name + " (docs/training.md)");
    }
    std::int64_t frozen = 0;
    bool trains = false;
    for (const ParameterSpec& spec : specs) {
        const bool keeps = spec.frozen || matches_any(freeze, spec.name);
        if (keeps) frozen += c10::multiply_integers(spec.sizes);
        trains |= !keeps;
    }
    if (!trains)
        throw RankFailure(2,
                          "model.freeze: all parameters are frozen, so there is nothing to train; "
                          "remove a pattern");
    return frozen;
}

plan::Untrained untrained_of(const spec::TrainSpec& spec, const spec::ModelConfig& model) {
    plan::Untrained untrained{.lowest = lowest_trained(model, spec.model.freeze)};
    for (const ParameterSpec& one : parameter_specs(model, whole_chunk(model))) {
        const bool looked_up = one.name.starts_with("embedding.") && !model.tied;
        const bool keeps = one.frozen || matches_any(spec.model.freeze, one.name);
        if (one.sizes.size() < 2 || looked_up || !keeps) continue;
        const bool is_expert = one.name.find(".experts.") != std::string::npos;
        const std::int64_t elements = c10::multiply_integers(one.sizes);
        untrained.elements +=
            is_expert ? elements * model.experts_per_token / model.experts : elements;
    }
    return untrained;
}

const char* name_of(spec::Precision precision) {
    switch (precision) {
        case spec::Precision::Fp32: return "fp32";
        case spec::Precision::Fp64: return "fp64";
        case spec::Precision::Bf16: return "bf16";
        case spec::Precision::Fp16: return "fp16";
    }
    return "";
}

at::ScalarType dtype_of(spec::Precision precision) {
    switch (precision) {
        case spec::Precision::Fp32: return at::kFloat;
        case spec::Precision::Fp64: return at::kDouble;
        case spec::Precision::Bf16: return at::kBFloat16;
        case spec::Precision::Fp16: return at::kHalf;
    }
    return at::kFloat;
}

std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec) {
    if (spec.export_format == spec::ExportFormat::None || spec.lora.is_set()) return std::nullopt;
    const at::ScalarType weights = dtype_of(spec.precision);
    const at::ScalarType exported = spec.export_dtype == spec::ExportDtype::Bf16   ? at::kBFloat16
                                    : spec.export_dtype == spec::ExportDtype::Fp16 ? at::kHalf
                                                                                   : at::kFloat;
    const bool changes = exported != weights && (exported != at::kFloat || weights == at::kDouble);
    return changes ? std::optional(exported) : std::nullopt;
}

}  // namespace roll::train
