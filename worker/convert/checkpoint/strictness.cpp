#include "worker/convert/checkpoint/strictness.hpp"

#include <array>

namespace roll::convert {
namespace {

enum class Rule { Raise, Log, Return, Drop };

struct Mode {
    Strictness strictness;
    const char* name;
    Rule unexpected;
    Rule missing;
};
constexpr std::array<Mode, 8> kModes{{
    {Strictness::RaiseAll, "raise_all", Rule::Raise, Rule::Raise},
    {Strictness::RaiseUnexpected, "raise_unexpected", Rule::Raise, Rule::Drop},
    {Strictness::AssumeOkUnexpected, "assume_ok_unexpected", Rule::Raise, Rule::Drop},
    {Strictness::LogAll, "log_all", Rule::Log, Rule::Log},
    {Strictness::LogUnexpected, "log_unexpected", Rule::Log, Rule::Drop},
    {Strictness::ReturnAll, "return_all", Rule::Return, Rule::Return},
    {Strictness::ReturnUnexpected, "return_unexpected", Rule::Return, Rule::Drop},
    {Strictness::IgnoreAll, "ignore_all", Rule::Drop, Rule::Drop},
}};

const Mode& mode_of(Strictness strictness) {
    // kModes has the order of the enum Strictness
    return kModes[static_cast<std::size_t>(strictness)];
}

}  // namespace

const char* name_of(Strictness strictness) { return mode_of(strictness).name; }

Result<Strictness> parse_strictness(const std::string& name) {
    std::string known;
    for (const Mode& mode : kModes) {
        if (name == mode.name) return mode.strictness;
        known += (known.empty() ? "" : ", ") + std::string(mode.name);
    }
    return fail(ErrorCode::InvalidArgument,
                "--strictness must be one of " + known + ", not \"" + name + "\"");
}

bool allows_unexpected(Strictness strictness) {
    return mode_of(strictness).unexpected != Rule::Raise;
}

bool allows_missing(Strictness strictness) { return mode_of(strictness).missing != Rule::Raise; }

Disagreement as_told(Strictness strictness, Disagreement all) {
    const Mode& mode = mode_of(strictness);
    if (mode.missing == Rule::Drop) all.missing.clear();
    if (mode.unexpected == Rule::Drop) all = {{}, std::move(all.missing), {}};
    return all;
}

std::vector<std::string> sentences(const Disagreement& disagreement) {
    std::vector<std::string> lines;
    for (const std::string& name : disagreement.unexpected)
        lines.push_back("the checkpoint lacks the tensor " + name +
                        " of the model (--strictness calls this \"unexpected\")");
    for (const std::string& name : disagreement.missing)
        lines.push_back("the model lacks the checkpoint's tensor " + name +
                        " (--strictness calls this \"missing\")");
    for (const std::string& name : disagreement.left_out)
        lines.push_back("left out of the target: " + name);
    return lines;
}

bool is_logged(Strictness strictness) { return mode_of(strictness).unexpected == Rule::Log; }

}  // namespace roll::convert
