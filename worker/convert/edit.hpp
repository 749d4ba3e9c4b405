// Renames or removes tensors of a checkpoint by name alone, without a model family. Copies all
// other files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/write/output.hpp"

namespace roll::convert {

// Renames or removes the tensors whose name matches a pattern. Each * in `name` matches the
// shortest possible text. `to` is the new name, in which each * stands for the text that the * of
// the same number matched; nullopt removes the tensor.
struct NameRule {
    std::string name;
    std::optional<std::string> to;
};

// Parses "OLD=NEW". Fails with InvalidArgument if there is no =, or if OLD and NEW have different
// numbers of *.
Result<NameRule> parse_renaming(const std::string& text);

// Returns the new name of a tensor. Returns nullopt if the rule does not match `name`, and empty if
// the rule removes the tensor.
std::optional<std::string> renamed_by(const NameRule& rule, std::string_view name);

struct EditRequest {
    std::filesystem::path source;
    std::filesystem::path target;
    std::vector<NameRule> rules;  // rules; for each name, the first that matches applies
    bool overwrite = false;
};

struct EditReport {
    std::size_t tensors = 0;  // number of tensors in the target
    std::vector<std::string> removed;
    std::map<std::string, std::string> renamed;
};

// Edits HuggingFace directories and torch.distributed.checkpoint directories (torch_dist,
// fsdp_dtensor). Fails with InvalidArgument for another format, a rule that matches no tensor, two
// tensors with the same new name, or an empty result. Fails with Unavailable if stopped by a hook.
Result<EditReport> edit(const EditRequest& request, const Hooks& hooks);

}  // namespace roll::convert
