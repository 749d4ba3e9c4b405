// Handles differences between the tensors of a checkpoint and its model. Modes and terms are
// Megatron's (StrictHandling): "unexpected" is a tensor of the model that the checkpoint lacks;
// "missing" is a tensor of the checkpoint that the model does not have.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::convert {

enum class Strictness {
    RaiseAll,            // fail on both
    RaiseUnexpected,     // fail on unexpected; drop missing
    AssumeOkUnexpected,  // same as above: all is read before a write
    LogAll,              // warn about both and leave them out
    LogUnexpected,       // warn about unexpected only
    ReturnAll,           // report both
    ReturnUnexpected,    // report unexpected only
    IgnoreAll,           // ignore both
};

const char* name_of(Strictness strictness);

// Parses the name of a mode. Fails with InvalidArgument; the message lists the modes.
Result<Strictness> parse_strictness(const std::string& name);

// allows_unexpected() is true if a conversion continues without a tensor of the model;
// allows_missing(), if it continues although the checkpoint has a tensor that the model lacks.
bool allows_unexpected(Strictness strictness);
bool allows_missing(Strictness strictness);

// Differences between a checkpoint and its model. as_told() returns those of `all` that the mode
// warns about or reports.
struct Disagreement {
    std::vector<std::string> unexpected;  // tensors of the model that the checkpoint lacks
    std::vector<std::string> missing;     // "FILE NAME" of the checkpoint's surplus tensors
    std::vector<std::string> left_out;    // target tensors that need one of `unexpected`
};
Disagreement as_told(Strictness strictness, Disagreement all);
bool is_logged(Strictness strictness);
std::vector<std::string> sentences(const Disagreement& disagreement);

}  // namespace roll::convert
