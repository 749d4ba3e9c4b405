// What a target directory holds besides its tensors, and the writing of its files.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// The tensors that the target shall have, with their files.
Result<std::vector<Stored>> target_layout(const Source& source, const Request& request, Format to);

// What files of this format hold besides tensors.
void complete_plan(const Source& source, const Request& request, Format to, Plan& plan);

// config.json, index, tracker, tokenizer, ...: everything that is not a tensor, into `directory`.
Result<void> write_companions(const Source& source, const Plan& plan, const Request& request,
                              Format to, const std::filesystem::path& directory);

// One file of tensors being written. Tensors in any order and from any thread, the bytes of one in
// order.
class TargetWriter {
  public:
    virtual ~TargetWriter() = default;
    virtual Result<void> append(std::size_t ordinal, std::span<const std::byte> bytes) = 0;
    virtual Result<void> finish() = 0;  // every tensor is whole; fsync
};
// `reuse`: another such directory or nothing; a file that is the same there is linked to.
Result<std::unique_ptr<TargetWriter>> create_target(const std::filesystem::path& directory,
                                                    const TargetFile& file,
                                                    const std::filesystem::path& reuse = {});

}  // namespace roll::convert
