// The config of an opened checkpoint, and what of the model follows from it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// From source.config.hf_config: model type, family and native config. InvalidArgument: it names no
// model type.
Result<void> use_hf_config(Source& source, const families::Families& families);

// From what a config.json at `path` says. Corrupt: no JSON object.
Result<void> use_config_text(Source& source, const std::string& text,
                             const std::filesystem::path& path, const families::Families& families);

// From a directory's mca_config.json; what that does not say follows from the HuggingFace config in
// it.
Result<void> use_mca_config(Source& source, const std::filesystem::path& directory,
                            const families::Families& families);

// Of a format that has no config of its own: `given` (a config.json, or a directory with one or
// with mca_config.json), else the first of `places` that has one. NotFound: nothing has.
Result<void> find_config(Source& source, const families::Families& families,
                         const std::vector<std::filesystem::path>& places,
                         const std::filesystem::path& given);

// As find_config(), then `read`. Where nothing has a config, or `given` is a family's name, it is
// made of the arguments of the run that wrote the checkpoint: by that family, or by the only one
// whose configs agree with them and whose tensors those are that `read` finds.
Result<void> open_with_config(Source& source, const families::Families& families,
                              const std::vector<std::filesystem::path>& places,
                              const std::filesystem::path& given, const Json& args,
                              const std::function<Result<void>(Source&)>& read);

// Every tensor of the model, from the native config. transformers leaves the number of layers of
// multi-token prediction in configs of models without them: `has_mtp` says if there are any.
Result<void> use_tensors(Source& source, bool has_mtp);

// Of a model whose output layer is its embedding: the HuggingFace name under which files may hold
// it all the same, and the embedding's number in the model. Nothing of other models.
struct TiedOutput {
    std::string name;
    int embedding = 0;
};
std::optional<TiedOutput> tied_output(const Source& source);

}  // namespace roll::convert
