#include "worker/convert/checkpoint/config.hpp"

#include "common/files.hpp"
#include "common/json_file.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/families/rebuild.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

Result<void> use_file(Source& source, const fs::path& path, const families::Families& families) {
    if (path.filename() == "mca_config.json")
        return use_mca_config(source, path.parent_path(), families);
    ROLL_TRY(const std::string text, read_regular_file(path));
    return use_config_text(source, text, path, families);
}

}  // namespace

Result<void> use_config_text(Source& source, const std::string& text, const fs::path& path,
                             const families::Families& families) {
    ROLL_TRY(source.config.hf_config, parse_json_object(text, path));
    return use_hf_config(source, families);
}

Result<void> use_hf_config(Source& source, const families::Families& families) {
    const auto type = source.config.hf_config.find("model_type");
    if (type == source.config.hf_config.end() || !type->is_string())
        return fail(ErrorCode::InvalidArgument,
                    (source.directory / "config.json").string() + " has no model_type");
    source.config.model_type = type->get<std::string>();
    ROLL_TRY(source.family, families.find(source.config.model_type));
    ROLL_TRY(source.config.native,
             families::native_config(*source.family, source.config.hf_config));
    return {};
}

Result<void> use_mca_config(Source& source, const fs::path& directory,
                            const families::Families& families) {
    ROLL_TRY(source.config, formats::read_mca_config(directory));
    ROLL_TRY(source.family, families.find(source.config.model_type));
    ROLL_TRY(Json native, families::native_config(*source.family, source.config.hf_config));
    for (const auto& [key, value] : source.config.native.items())
        if (!value.is_null()) native[key] = value;
    // Drop the rows beyond vocab_size, which Roll added as padding. ROLL's checkpoints have no
    // vocab_size; all their rows are tokens.
    const Json tokens = native.value("vocab_size", Json());
    const Json rows = native.value("padded_vocab_size", Json());
    if (tokens.is_number_integer() && rows.is_number_integer() && tokens > 0 && tokens < rows) {
        source.config.padded_vocab = rows.get<std::int64_t>();
        native["padded_vocab_size"] = tokens;
        source.matching.dropped.push_back(
            {directory.string(), "embedding.word_embeddings.weight",
             "rows " + tokens.dump() + " to " + rows.dump() + " pad the vocabulary"});
    }
    native.erase("vocab_size");
    source.config.native = std::move(native);
    return {};
}

Result<void> find_config(Source& source, const families::Families& families,
                         const std::vector<fs::path>& places, const fs::path& given) {
    std::vector<fs::path> files;
    for (const fs::path& place : given.empty() ? places : std::vector<fs::path>{given}) {
        files.push_back(place / "mca_config.json");
        files.push_back(place / "config.json");
    }
    if (!given.empty()) files.push_back(given);
    std::error_code error;
    for (const fs::path& file : files)
        if (fs::is_regular_file(file, error)) {
            source.companions = file.parent_path();
            return use_file(source, file, families);
        }
    if (!given.empty() && !path_exists(given))
        return fail(ErrorCode::NotFound, given.string() + " does not exist");
    return fail(ErrorCode::NotFound,
                (given.empty() ? source.directory : given).string() +
                    " has no config.json, so the model of the weights is unknown",
                "give --config MODEL: the original HuggingFace directory or its config.json");
}

namespace {

// Returns a source for each family that fits the run's arguments. If some families do not fit, sets
// `reason` to the error of the last family that does not fit.
std::vector<Source> sources_by_arguments(const Source& source, const families::Families& families,
                                         const std::string& given, const Json& args,
                                         std::string& reason) {
    std::vector<Source> choices;
    const Json native = formats::native_of_args(args);
    for (const auto& [name, family] : families.all()) {
        // skip aliases of families; if a family is given, skip all others
        if (name != (given.empty() ? family.model_type : given)) continue;
        auto config = families::hf_config_of(family, native);
        Source choice = source;
        if (config) {
            choice.config.hf_config = *std::move(config);
            choice.config.hf_config["model_type"] = name;
            if (use_hf_config(choice, families)) choices.push_back(std::move(choice));
        } else {
            reason = config.error().message;
        }
    }
    return choices;
}

}  // namespace

Result<void> open_with_config(Source& source, const families::Families& families,
                              const std::vector<fs::path>& places, const fs::path& given,
                              const Json& args, const std::function<Result<void>(Source&)>& read) {
    const bool is_family = !path_exists(given) && families.all().contains(given.string());
    const auto found = is_family ? Result<void>(fail(ErrorCode::NotFound, ""))
                                 : find_config(source, families, places, given);
    if (found) return read(source);
    const bool has_args = args.is_object() && args.contains("num_layers");
    if (found.error().code != ErrorCode::NotFound || (!given.empty() && !is_family)) return found;
    if (!has_args)
        return is_family ? fail(ErrorCode::InvalidArgument,
                                source.directory.string() +
                                    " has no arguments of its training run, from which Roll could "
                                    "make a config",
                                "give --config MODEL: the original HuggingFace directory or its "
                                "config.json")
                         : found;
    std::string reason;
    std::vector<Source> fits;
    std::string names;
    for (Source& choice : sources_by_arguments(source, families, given.string(), args, reason)) {
        // Be strict: missing tensors show that the checkpoint belongs to another family.
        if (!is_family) choice.matching.strictness = Strictness::RaiseAll;
        const auto done = read(choice);
        if (!done) reason = done.error().message;
        if (!done) continue;
        names += (names.empty() ? "" : ", ") + choice.config.model_type;
        fits.push_back(std::move(choice));
    }
    if (fits.size() == 1) {
        source = std::move(fits.front());
        return {};
    }
    const std::string what =
        source.directory.string() + " has no config.json, and the arguments of its training run ";
    if (fits.empty())
        return fail(ErrorCode::InvalidArgument, what + "fit no known family: " + reason,
                    "give --config MODEL: the model's HuggingFace directory or its config.json");
    return fail(ErrorCode::InvalidArgument, what + "fit several families: " + names,
                "give one of these names, or the model's directory, with --config");
}

Result<void> use_tensors(Source& source, bool has_mtp) {
    Json& native = source.config.native;
    if (!has_mtp && native.contains("mtp_num_layers")) native["mtp_num_layers"] = 0;
    ROLL_TRY(source.native,
             families::native_tensors(*source.family, native, source.config.hf_config));
    source.model = model_of(source.native);
    ROLL_TRY_VOID(select_copies(source));
    return select_packed(source);
}

}  // namespace roll::convert
