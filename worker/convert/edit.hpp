// Renames or removes tensors of a checkpoint by their names. Needs no model family. Copies all
// other files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/rename.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

struct EditRequest {
    std::filesystem::path source;
    std::filesystem::path target;
    std::vector<NameRule> rules;  // for each tensor, the first matching rule applies
    bool overwrite = false;
};

struct EditReport {
    std::size_t tensors = 0;  // number of tensors in the target
    std::vector<std::string> removed;
    std::map<std::string, std::string> renamed;
};

// Edits HuggingFace directories and torch.distributed.checkpoint directories (torch_dist,
// fsdp_dtensor). Fails with InvalidArgument if the source has another format, if a rule matches no
// tensor, if two tensors get the same name, or if no tensor would be left. Fails with Unavailable
// if a hook stopped the edit.
Result<EditReport> edit(const EditRequest& request, const Hooks& hooks);

}  // namespace roll::convert
