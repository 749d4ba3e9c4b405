// Handles differences between the tensors of a checkpoint and its model. Modes and terms are
// Megatron's (StrictHandling). An "unexpected" tensor is in the model, but not in the checkpoint. A
// "missing" tensor is in the checkpoint, but not in the model.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::convert {

enum class Strictness {
    RaiseAll,            // fail on missing and on unexpected tensors
    RaiseUnexpected,     // fail on unexpected tensors; ignore missing tensors
    AssumeOkUnexpected,  // same as RaiseUnexpected: Roll checks all tensors before it writes
    LogAll,              // warn about missing and unexpected tensors, and leave both out
    LogUnexpected,       // warn about unexpected tensors, and leave them out; ignore missing ones
    ReturnAll,           // report missing and unexpected tensors, and leave both out
    ReturnUnexpected,    // report unexpected tensors, and leave them out; ignore missing ones
    IgnoreAll,           // leave out missing and unexpected tensors silently
};

const char* name_of(Strictness strictness);

// Parses the name of a mode. Fails with InvalidArgument; the message lists the modes.
Result<Strictness> parse_strictness(const std::string& name);

// Return true if a conversion continues despite a difference. allows_unexpected(): the checkpoint
// lacks a tensor of the model. allows_missing(): the model lacks a tensor of the checkpoint.
// PyTorch uses the two words the other way round.
bool allows_unexpected(Strictness strictness);
bool allows_missing(Strictness strictness);

// Differences between a checkpoint and its model. as_told() returns the differences in `all` that
// the mode warns about or reports.
struct Disagreement {
    std::vector<std::string> unexpected;  // tensors of the model that the checkpoint lacks
    // tensors of the checkpoint that the model lacks, as "FILE NAME"
    std::vector<std::string> missing;
    std::vector<std::string> left_out;  // target tensors that need a tensor in `unexpected`
};
Disagreement as_told(Strictness strictness, Disagreement all);
bool is_logged(Strictness strictness);
std::vector<std::string> sentences(const Disagreement& disagreement);

}  // namespace roll::convert
