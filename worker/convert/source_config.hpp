// The config of an opened checkpoint, and what the model derives from it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Sets model type, family and native config from source.config.hf_config. Fails with
// InvalidArgument without a model type.
Result<void> use_hf_config(Source& source, const families::Families& families);

// Reads the text of a config.json; `path` is for messages. Fails with Corrupt if it is no JSON
// object.
Result<void> use_config_text(Source& source, const std::string& text,
                             const std::filesystem::path& path, const families::Families& families);

// Reads a directory's mca_config.json; its HuggingFace config gives the missing fields.
Result<void> use_mca_config(Source& source, const std::filesystem::path& directory,
                            const families::Families& families);

// Finds the config of a format that has none of its own: `given` (a config.json, or a directory
// with one or with mca_config.json), else the first of `places` that has one. Fails with NotFound
// if there is none.
Result<void> find_config(Source& source, const families::Families& families,
                         const std::vector<std::filesystem::path>& places,
                         const std::filesystem::path& given);

// Calls find_config(), then `read`. If there is no config, or `given` is a family's name, derives
// the config from the arguments of the run that wrote the checkpoint: for that family, or for the
// only family whose config agrees with the arguments and whose tensors `read` finds.
Result<void> open_with_config(Source& source, const families::Families& families,
                              const std::vector<std::filesystem::path>& places,
                              const std::filesystem::path& given, const Json& args,
                              const std::function<Result<void>(Source&)>& read);

// Lists every tensor of the model from the native config. transformers keeps the number of
// multi-token-prediction layers in configs of models without them, so `has_mtp` says if they exist.
Result<void> use_tensors(Source& source, bool has_mtp);

// The output layer of a model that ties it to its embedding: the HuggingFace name under which files
// may store it anyway, and the embedding's number in the model. nullopt for other models.
struct TiedOutput {
    std::string name;
    int embedding = 0;
};
std::optional<TiedOutput> tied_output(const Source& source);

}  // namespace roll::convert
