// What happens where a checkpoint and its model do not have the same tensors. The modes and the
// words are Megatron's (StrictHandling), seen from what the model asks for: "unexpected" is a
// tensor of the model that the checkpoint lacks, "missing" one of the checkpoint that nobody asks
// for.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::convert {

enum class Strictness {
    RaiseAll,            // either is an error
    RaiseUnexpected,     // what the model lacks is; what nobody asks for is dropped
    AssumeOkUnexpected,  // the same: a converter reads everything before it writes
    LogAll,              // both are told, and left out
    LogUnexpected,       // what the model lacks is told
    ReturnAll,           // both are in the report
    ReturnUnexpected,    // what the model lacks is
    IgnoreAll,           // neither
};

const char* name_of(Strictness strictness);

// InvalidArgument lists the modes.
Result<Strictness> parse_strictness(const std::string& name);

// If a conversion goes on without a tensor of the model, and with one that nobody asks for.
bool allows_unexpected(Strictness strictness);
bool allows_missing(Strictness strictness);

// What the checkpoint and its model did not agree on, as far as the mode wants it told or returned.
struct Disagreement {
    std::vector<std::string> unexpected;  // tensors of the model
    std::vector<std::string> missing;     // "FILE NAME" of the checkpoint
    std::vector<std::string> left_out;    // of the target, for want of the unexpected ones
};
Disagreement as_told(Strictness strictness, Disagreement all);
bool is_logged(Strictness strictness);
std::vector<std::string> sentences(const Disagreement& disagreement);

}  // namespace roll::convert
