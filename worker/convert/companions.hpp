// What belongs to a model beside its weights and config: tokenizer, chat templates, generation
// config, processors, remote code.
#pragma once

#include <filesystem>

#include "common/error.hpp"
#include "worker/convert/source.hpp"

namespace roll::convert {

// Copies the source's, from beside its config or out of its archive. A model of bytes that has no
// tokenizer gets one.
Result<void> write_companion_files(const Source& source, const std::filesystem::path& directory);

}  // namespace roll::convert
