// Files that belong to a model, other than its weights and config: tokenizer, chat templates,
// generation config, processors, remote code.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"

namespace roll::convert {

// Copies the source's companion files, either from the directory of the source's config or from the
// source's archive. If the source is a byte-level model without a tokenizer, writes the byte
// tokenizer.
Result<void> write_companion_files(const Source& source, const std::filesystem::path& directory);

}  // namespace roll::convert
