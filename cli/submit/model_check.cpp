#include "cli/submit/model_check.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include "common/files.hpp"
#include "common/spec/check/experts.hpp"
#include "common/spec/check/lora_rules.hpp"
#include "common/spec/check/sizes.hpp"
#include "common/spec/train/model_source.hpp"
#include "common/spec/train/optimizer.hpp"
#include "common/spec/train/preference.hpp"
#include "common/spec/train/read_lora.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/families/model.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/formats/hf.hpp"
#include "worker/tokenizer/ids_end.hpp"

namespace roll::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kByteValues = 256;

// Returns whether this machine can read the directory. False for a reference such as
// "{previous.result}".
bool is_visible(const std::string& directory) {
    return ::access(directory.c_str(), R_OK | X_OK) == 0;
}

std::string path_of(const Json& object, const char* key, const std::string& base) {
    const Json value = object.value(key, Json());
    if (!value.is_string() || value == "") return "";
    return (fs::path(base) / value.get<std::string>()).lexically_normal().string();
}

std::optional<std::int64_t> number_of(const Json& object, const char* key) {
    const Json value = object.value(key, Json());
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

Json object_of(const Json& document, const char* key) {
    Json value = document.value(key, Json());
    return value.is_object() ? value : Json::object();
}

// Returns the `model_type` in the config of a HuggingFace directory; empty if there is none.
std::string type_of(const fs::path& directory) {
    const auto config = formats::read_hf_config(directory);
    const Json type = config ? config->value("model_type", Json()) : Json();
    return type.is_string() ? type.get<std::string>() : "";
}

// Reads only the config, so that sizes can be checked even if the weights are damaged.
Result<void> read_config(convert::Source& source, const families::Families& families) {
    ROLL_TRY(source.format, convert::detect_format(source.directory));
    if (source.format == convert::Format::Mca)
        return convert::use_mca_config(source, source.directory, families);
    if (source.format != convert::Format::Hf && source.format != convert::Format::Bin) return {};
    ROLL_TRY(source.config.hf_config, formats::read_hf_config(source.directory));
    return convert::use_hf_config(source, families);
}

}  // namespace

struct CheckedJob {
    const Json& document;
    const std::string& base;
    std::string prefix;  // text put before the key paths of problems, e.g. "then[0]."
    bool whole;
    std::vector<spec::Problem>& found;

    std::string kind = document.value("kind", Json("")).is_string()
                           ? document.value("kind", std::string())
                           : std::string();
    Json model = object_of(document, "model");
    Json train = object_of(document, "train");
    std::string from = path_of(model, "from", base);
    bool has_tokenizer = document.contains("tokenizer");

    void note(const std::string& path, const std::string& message) const {
        found.push_back({prefix + path, message});
    }
    // Returns whether the job is a resumed job. Such a job takes the model from its checkpoint, so
    // `model.from` may name a directory that no longer exists.
    bool resumes() const { return kind == "resume"; }
};

const Result<families::Families>& ModelCheck::families(const std::string& model_type) {
    auto found = families_.find(model_type);
    if (found == families_.end())
        found = families_.emplace(model_type, families::Families::load_for(model_type)).first;
    return found->second;
}

const ModelCheck::Model* ModelCheck::given_model(const CheckedJob& job) {
    return model_in(job.from, spec::overridden_of(job.model));
}

const ModelCheck::Model* ModelCheck::model_in(const std::string& directory, const Json& dropouts) {
    if (!is_visible(directory)) return nullptr;
    const auto [place, is_new] = models_.try_emplace(directory + dropouts.dump());
    Model& model = place->second;
    if (!is_new) return &model;
    convert::Source source;
    source.directory = directory;
    const auto note = [&](const Error& error) { model.problems.push_back(error.message); };
    const auto& known = families(type_of(directory));
    const auto config = known ? read_config(source, *known) : tl::unexpected(known.error());
    if (!config) {
        note(config.error());
        return &model;
    }
    if (auto whole = convert::open_source(directory, *known, {.config_suffices = config_suffices_}))
        source = *std::move(whole);
    else
        note(whole.error());
    model.reads_bytes = formats::has_bytes_tokenizer(source.config.hf_config);
    for (const families::NativeTensor& tensor : source.native)
        model.parameters.push_back(tensor.name);
    model.modules = families::modules_of(source.native);
    if (source.family == nullptr) return &model;
    if (const auto set = families::set_keys(*source.family, dropouts, source.config.hf_config,
                                            source.config.native);
        !set)
        note(set.error());
    if (auto sizes = families::model_config(*source.family, source.config.native))
        model.config = *std::move(sizes);
    else
        note(sizes.error());
    return &model;
}

// Returns the model whose sizes are in the key `model` of the job file. Missing sizes get the same
// defaults as on the ranks. `ids` is the number of token ids, which is the default of vocab_size.
std::optional<ModelCheck::Model> ModelCheck::sized_model(const CheckedJob& job,
                                                         std::optional<std::int64_t> ids) {
    const Json name = job.model.value("family", Json());
    if (!name.is_string()) return std::nullopt;
    const auto model_type = name.get<std::string>();
    const auto family = families(model_type).and_then([&](const families::Families& known) {
        return known.find(model_type);
    });
    if (!family) {
        job.note("model.family", fmt::format("is {}: {}", model_type, family.error().message));
        return std::nullopt;
    }
    if (!job.whole) return std::nullopt;
    Json sizes = job.model;
    for (const char* key : {"family", "from", "freeze", "adapters", "optimizer"}) sizes.erase(key);
    if (!sizes.contains("vocab_size")) sizes["vocab_size"] = ids.value_or(kByteValues);
    Model model;
    const auto build = [&]() -> Result<void> {
        ROLL_TRY(const Json config, families::complete_hf_config(**family, sizes));
        ROLL_TRY(const Json native, families::native_config(**family, config));
        ROLL_TRY(model.config, families::model_config(**family, native));
        ROLL_TRY(const auto tensors, families::native_tensors(**family, native, config));
        for (const families::NativeTensor& tensor : tensors)
            model.parameters.push_back(tensor.name);
        return {};
    };
    if (const auto built = build(); !built) {
        // If the family does not know a key of `model`, the message ends with this key.
        const std::string &message = built.error().message, mark = " has no config key ";
        const std::size_t at = message.find(mark);
        const std::string key = at == message.npos ? "" : message.substr(at + mark.size());
        if (sizes.contains(key))
            job.note("model." + key, fmt::format("is {}, but {}; remove it, or choose another "
                                                 "model.family",
                                                 dump(sizes[key]), message));
        else
            job.note("model", "is invalid: " + message);
    }
    return model;
}

ModelCheck::Tokens ModelCheck::tokens(const CheckedJob& job, const Model* model) {
    const Json word = job.document.value("tokenizer", Json());
    const bool own = !job.from.empty() && !job.has_tokenizer;
    if (word == "bytes" || (!job.has_tokenizer && !own) || (own && model && model->reads_bytes))
        return {kByteValues, ""};
    const std::string directory = own ? job.from : path_of(job.document, "tokenizer", job.base);
    if (directory == job.from && model && model->reads_bytes) return {kByteValues, ""};
    if (directory.empty() || !is_visible(directory)) return {};
    const auto [place, is_new] = tokenizers_.try_emplace(directory);
    Tokens& tokens = place->second;
    if (!is_new) return tokens;
    const std::string file = directory + "/tokenizer.json";
    if (!is_file(file)) {
        tokens.problem = directory +
                         " has no tokenizer.json; set `tokenizer` to a directory that has one, or "
                         "to the value `bytes`";
        return tokens;
    }
    const auto text = read_file(file);
    const auto ids = text ? tokenizer::ids_end(*text) : tl::unexpected(text.error());
    if (ids)
        tokens.ids = *ids;
    else
        tokens.problem = text ? file + " " + ids.error().message : ids.error().message;
    return tokens;
}

namespace {

void check_rows(const CheckedJob& job, std::int64_t rows, std::int64_t ids) {
    const auto asked = number_of(job.model, "vocab_size");
    if (asked && !job.from.empty() && *asked < rows)
        return job.note(
            "model.vocab_size",
            fmt::format("is {}; allowed: at least {}, the model's vocabulary size", *asked, rows));
    if (asked.value_or(rows) >= ids) return;
    const std::string enough = fmt::format("model.vocab_size {}", (ids + 63) / 64 * 64);
    if (asked)
        job.note(
            "model.vocab_size",
            fmt::format("is {}; allowed: at least {}, the tokenizer's number of ids", *asked, ids));
    else  // train.lora and model.vocab_size exclude each other
        job.note(
            "tokenizer",
            fmt::format("has ids up to {}, but the model's embedding has {} rows; "
                        "use the model's own tokenizer{}",
                        ids - 1, rows, job.train.contains("lora") ? "" : ", or set " + enough));
}

void check_freeze(const CheckedJob& job, const std::vector<std::string>& parameters) {
    const Json globs = job.model.value("freeze", Json::array());
    if (!globs.is_array() || parameters.size() < 2) return;
    std::vector<bool> frozen(parameters.size());
    for (std::size_t i = 0; i < globs.size(); ++i) {
        if (!globs[i].is_string()) continue;
        const auto glob = globs[i].get<std::string>();
        bool used = false;
        for (std::size_t p = 0; p < parameters.size(); ++p) {
            if (::fnmatch(glob.c_str(), parameters[p].c_str(), 0) != 0) continue;
            frozen[p] = used = true;
        }
        if (!used)
            job.note(fmt::format("model.freeze[{}]", i),
                     fmt::format("is {}, which matches no parameter; parameters are named {}, {} "
                                 "and so on",
                                 glob, parameters[0], parameters[1]));
    }
    if (std::ranges::all_of(frozen, std::identity()))
        job.note("model.freeze", "freezes all parameters, so there is nothing to train");
}

// Checks that every pattern in train.optimizer.groups and train.optimizer.decays matches a
// parameter. Skips jobs with LoRA, because `parameters` lacks LoRA's matrices. The trainer checks
// the groups of jobs with LoRA.
void check_groups(const CheckedJob& job, const std::vector<std::string>& parameters) {
    if (job.train.contains("lora") || parameters.size() < 2) return;
    const auto check_glob = [&](const std::string& path, const std::string& glob) {
        if (std::ranges::any_of(parameters, [&](const std::string& name) {
                return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
            }))
            return;
        job.note(path, fmt::format("has {}, which matches no parameter; parameters are named {}, "
                                   "{} and so on",
                                   glob, parameters[0], parameters[1]));
    };
    const Json given = object_of(job.train, "optimizer");
    // A reward model has a parameter that `parameters` lacks. A resumed job is not refused, because
    // its stored file was accepted before.
    const bool scores = spec::objective_name(job.document.value("objective", Json())) == "reward";
    const Json decays = scores || job.resumes() ? Json::object() : object_of(given, "decays");
    for (const auto& [glob, ignored] : decays.items()) check_glob("train.optimizer.decays", glob);
    spec::OptimizerSpec optimizer;
    if (!spec::read_update_rule(given, optimizer)) return;
    for (std::size_t i = 0; i < optimizer.groups.size(); ++i)
        for (const std::string& glob : optimizer.groups[i].globs)
            check_glob(fmt::format("train.optimizer.groups[{}].match", i), glob);
}

// Checks the job's settings against a model that has experts.
void check_experts(const CheckedJob& job) {
    const auto cp = number_of(object_of(job.document, "parallel"), "cp").value_or(1);
    const spec::ExpertUse use{
        spec::objective_name(job.document.value("objective", Json())),
        static_cast<int>(std::min<std::int64_t>(cp, 1'000'000)), job.train.contains("lora"),
        object_of(job.document, "resources").value("gpus_per_node", Json(0)) != 0};
    for (const spec::Problem& problem : spec::expert_problems(use))
        job.note(problem.path, problem.message);
}

}  // namespace

// Checks that the teacher of a distillation can be read, and that it has the trained model's
// vocabulary.
void ModelCheck::check_teacher(const CheckedJob& job, std::int64_t vocab) {
    const std::string directory =
        path_of(object_of(object_of(job.document, "objective"), "teacher"), "from", job.base);
    const Model* teacher =
        directory.empty() ? nullptr : model_in(directory, spec::overridden_of(Json::object()));
    if (teacher == nullptr) return;
    for (const std::string& problem : teacher->problems)
        job.note("objective.teacher.from", fmt::format("is {}: {}", directory, problem));
    if (!teacher->config || teacher->config->vocab == vocab) return;
    job.note("objective.teacher.from",
             fmt::format("is {}, whose vocabulary has {} tokens; allowed: a model with {} tokens, "
                         "as the trained model has",
                         directory, teacher->config->vocab, vocab));
}

void ModelCheck::check(const CheckedJob& job) {
    const Model* model = job.from.empty() ? nullptr : given_model(job);
    if (model != nullptr && !job.resumes())
        for (const std::string& problem : model->problems)
            job.note("model.from", fmt::format("is {}: {}", job.from, problem));
    const Tokens tokens = this->tokens(job, model);
    if (!tokens.problem.empty() && !job.resumes())
        job.note("tokenizer", "cannot be used: " + tokens.problem);
    if (job.kind == "tokenize") return;
    std::optional<Model> sized;
    if (job.from.empty()) {
        sized = sized_model(job, tokens.ids);
        model = sized ? &*sized : nullptr;
    }
    if (model == nullptr) return;
    check_freeze(job, model->parameters);
    check_groups(job, model->parameters);
    std::vector<std::string> modules = model->modules;
    const bool scores = spec::objective_name(job.document.value("objective", Json())) == "reward";
    if (scores) std::ranges::replace(modules, std::string("lm_head"), std::string("score"));
    if (scores) modules.emplace_back("score");
    if (!model->modules.empty())
        for (const spec::Problem& problem :
             spec::lora_target_problems(spec::lora_spec(job.train.value("lora", Json())), modules))
            job.note(problem.path, problem.message);
    if (!model->config) return;
    if (model->config->experts > 0) check_experts(job);
    // If the sizes are in the job file, the schema's check has already checked the layers.
    if (!job.from.empty())
        if (const auto problem = spec::undivided_layers(job.document, model->config->layers))
            job.note(problem->path, problem->message);
    if (tokens.ids) check_rows(job, model->config->vocab, *tokens.ids);
    if (!job.resumes())
        check_teacher(job, number_of(job.model, "vocab_size").value_or(model->config->vocab));
    const auto sequence = number_of(job.train, "seq_length");
    const std::int64_t positions = model->config->positions_max;
    // If the job file sets the maximum length, sized_model() has already checked it.
    const bool said = job.model.contains("max_position_embeddings");
    if (sequence && !said && *sequence > positions)
        job.note("train.seq_length",
                 fmt::format("is {}; allowed: at most {}, the model's max_position_embeddings",
                             *sequence, positions));
}

std::vector<spec::Problem> ModelCheck::problems(const Json& document, const std::string& base,
                                                bool whole) {
    std::vector<spec::Problem> found;
    const auto look = [&](const Json& one, const std::string& prefix) {
        if (!one.is_object()) return;
        const CheckedJob job{one, base, prefix, whole, found};
        if (job.kind == "train" || job.resumes() || job.kind == "tokenize") check(job);
    };
    look(document, "");
    const Json then = document.is_object() ? document.value("then", Json()) : Json();
    for (std::size_t i = 0; then.is_array() && i < then.size(); ++i)
        look(then[i], fmt::format("then[{}].", i));
    return found;
}

}  // namespace roll::cli
