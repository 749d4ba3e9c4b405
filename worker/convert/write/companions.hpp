// Files that belong to a model besides weights and config: tokenizer, chat templates, generation
// config, processors, remote code.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Copies the source's companion files from the directory of its config or from its archive. For a
// byte-level model without a tokenizer, writes the byte tokenizer.
Result<void> write_companion_files(const Source& source, const std::filesystem::path& directory);

}  // namespace roll::convert
