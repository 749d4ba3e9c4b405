// Tensors of a checkpoint renamed or left out, by name alone: no family needs to know them. The
// rest of the directory is copied.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/convert.hpp"

namespace roll::convert {

// A name in which each * stands for any text, as short as it can be. `to` has the same texts in the
// place of its own *; nothing: the tensor is left out.
struct NameRule {
    std::string name;
    std::optional<std::string> to;
};

// "OLD=NEW". InvalidArgument: it has no =, or the two have not as many *.
Result<NameRule> parse_renaming(const std::string& text);

// What the rule makes of a name: nothing if it is not of it, an empty text if it leaves it out.
std::optional<std::string> renamed_by(const NameRule& rule, std::string_view name);

struct EditRequest {
    std::filesystem::path source;
    std::filesystem::path target;
    std::vector<NameRule> rules;  // the first that fits a name counts
    bool overwrite = false;
};

struct EditReport {
    std::size_t tensors = 0;  // in the target
    std::vector<std::string> removed;
    std::map<std::string, std::string> renamed;
};

// HuggingFace directories and those of torch.distributed.checkpoint (torch_dist, fsdp_dtensor).
// InvalidArgument: another format, a rule that no tensor fits, two tensors of one name, nothing
// left. Unavailable: stopped by a hook.
Result<EditReport> edit(const EditRequest& request, const Hooks& hooks);

}  // namespace roll::convert
