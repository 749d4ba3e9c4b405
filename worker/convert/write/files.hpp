// Writes a single file of tensors, and a model's other files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "common/error.hpp"
#include "worker/convert/checkpoint/source.hpp"
#include "worker/convert/plan/plan.hpp"

namespace roll::convert {

// Writes one file of tensors. Tensors may be appended in any order and from any thread. The bytes
// of one tensor must be appended in order.
class TargetWriter {
  public:
    virtual ~TargetWriter() = default;
    virtual Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) = 0;
    virtual Result<void> finish() = 0;  // syncs the file; requires that every tensor is complete
};

// A TargetWriter that passes its calls to a writer of worker/formats.
template <class Writer>
class FormatWriter : public TargetWriter {
  public:
    explicit FormatWriter(Writer writer) : writer_(std::move(writer)) {}
    Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) override {
        return writer_.append(ordinal, bytes);
    }
    Result<void> finish() override { return writer_.finish(); }

  private:
    Writer writer_;
};

// Create a file. `earlier` is the file with the same name in an earlier target; it may be empty. If
// the two files are identical, the new file becomes a link to the earlier file.
Result<std::unique_ptr<TargetWriter>> create_safetensors(const std::filesystem::path& path,
                                                         const TargetFile& file,
                                                         const std::filesystem::path& earlier);
Result<std::unique_ptr<TargetWriter>> create_torch(const std::filesystem::path& path,
                                                   const TargetFile& file,
                                                   const std::filesystem::path& earlier);

// Copies the source's companion files (tokenizer, chat templates, generation config, processors,
// remote code), either from the directory of the source's config or from the source's archive. If
// the source is a byte-level model without a tokenizer, writes the byte tokenizer.
Result<void> write_companion_files(const Source& source, const std::filesystem::path& directory);

}  // namespace roll::convert
