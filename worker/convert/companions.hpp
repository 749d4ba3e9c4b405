// Files that belong to a model besides weights and config: tokenizer, chat templates, generation
// config, processors, remote code.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Copies the source's files from the config's directory or from its archive. A byte-level model
// without a tokenizer gets one.
Result<void> write_companion_files(const Source& source, const std::filesystem::path& directory);

}  // namespace roll::convert
