// Sets the config of an opened checkpoint. Also sets the family and the tensors, which follow from
// the config.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Sets the model type, the family and the native config from source.config.hf_config. Fails with
// InvalidArgument if the HuggingFace config has no model type.
Result<void> use_hf_config(Source& source, const families::Families& families);

// Sets the config from the text of a config.json. `path` is used in messages only. Fails with
// Corrupt if the text is not a JSON object.
Result<void> use_config_text(Source& source, const std::string& text,
                             const std::filesystem::path& path, const families::Families& families);

// Sets the config from a directory's mca_config.json. Missing native fields are derived from the
// HuggingFace config in the same file.
Result<void> use_mca_config(Source& source, const std::filesystem::path& directory,
                            const families::Families& families);

// Finds and sets the config, for formats that do not contain a config. `given` is a config.json, or
// a directory with a config.json or mca_config.json. If `given` is empty, uses the first directory
// in `places` that has a config. Fails with NotFound if there is no config.
Result<void> find_config(Source& source, const families::Families& families,
                         const std::vector<std::filesystem::path>& places,
                         const std::filesystem::path& given);

// Calls find_config(), then `read`. If there is no config, or if `given` is the name of a family,
// derives the config from `args`, the arguments of the run that wrote the checkpoint. If `given` is
// empty, tries all families. A family fits if it agrees with the arguments, and if `read` finds
// exactly its tensors in the checkpoint. Exactly one family must fit.
Result<void> open_with_config(Source& source, const families::Families& families,
                              const std::vector<std::filesystem::path>& places,
                              const std::filesystem::path& given, const Json& args,
                              const std::function<Result<void>(Source&)>& read);

// Lists every tensor of the model, from the native config. `has_mtp` says whether the checkpoint
// has multi-token prediction layers. The config alone does not say this, because transformers keeps
// their number even in the config of a model without them.
Result<void> use_tensors(Source& source, bool has_mtp);

}  // namespace roll::convert
