#include "cli/slurm/arguments.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/slurm/values.hpp"

namespace roll::cli {
namespace {

Error unknown_argument(const std::string& program, const std::string& option) {
    return {ErrorCode::InvalidArgument,
            fmt::format("{}: Roll's {} has no option {}", program, program, option),
            "docs/from-slurm.md lists the options"};
}

}  // namespace

std::vector<std::string> SlurmArguments::list(const std::string& name) const {
    std::vector<std::string> parts;
    for (std::string& part : split_at(value(name), ','))
        if (!part.empty()) parts.push_back(std::move(part));
    return parts;
}

Result<SlurmArguments> read_slurm_arguments(const std::string& program,
                                            const std::vector<std::string>& words,
                                            std::span<const SlurmFlag> flags) {
    SlurmArguments result;
    const auto take = [&](std::size_t& at, const SlurmFlag& flag,
                          const std::string& joined) -> Result<void> {
        std::string value = joined;
        if (flag.value && joined.empty()) {
            if (++at == words.size())
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("{}: --{} needs a value", program, flag.name));
            value = words[at];
        }
        if (!flag.ignored) result.given[flag.name] = value;
        return {};
    };
    for (std::size_t at = 0; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (word.size() < 2 || word[0] != '-') {
            result.rest.push_back(word);
            continue;
        }
        if (word[1] == '-') {
            const std::size_t equals = std::min(word.find('='), word.size());
            const auto flag =
                std::ranges::find(flags, word.substr(2, equals - 2), &SlurmFlag::name);
            if (flag == flags.end()) return tl::unexpected(unknown_argument(program, word));
            const bool has = equals < word.size();
            if (has && !flag->value) return tl::unexpected(unknown_argument(program, word));
            ROLL_TRY_VOID(take(at, *flag, has ? word.substr(equals + 1) : ""));
            continue;
        }
        for (std::size_t i = 1; i < word.size(); ++i) {
            const auto flag = std::ranges::find(flags, word[i], &SlurmFlag::letter);
            if (flag == flags.end())
                return tl::unexpected(unknown_argument(program, std::string("-") + word[i]));
            ROLL_TRY_VOID(take(at, *flag, flag->value ? word.substr(i + 1) : ""));
            if (flag->value) break;
        }
    }
    return result;
}

}  // namespace roll::cli
