#include "cli/parse_problem.hpp"

#include <algorithm>
#include <regex>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/slurm.hpp"
#include "cli/slurm/options.hpp"
#include "cli/slurm/values.hpp"
#include "common/spec/schema/nearest.hpp"

namespace roll::cli {
namespace {

// Returns the command that was given, such as `submit`.
const CLI::App& command_of(const CLI::App& app) {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return *command;
}

// Returns CLI11's message "Could not convert: --priority = high" as a sentence.
std::string conversion_text(const std::string& message, const CLI::App& app) {
    const std::size_t begin = message.find("--"), value = message.find(" = ");
    if (begin == std::string::npos || value == std::string::npos || value < begin) return message;
    const std::string name = message.substr(begin, value - begin);
    const CLI::Option* const option = command_of(app).get_option_no_throw(name);
    const bool whole = option != nullptr && !option->get_type_name().starts_with("FLOAT");
    return fmt::format("{} is {}; allowed: a {}number", name, message.substr(value + 3),
                       whole ? "whole " : "");
}

// Converts CLI11's messages "--by: day not in {user,week}" and "--tail: Value x not in range 0 to
// 9" to sentences. If a number must be above 0, CLI11 prints the lower limit 0.000000. If a number
// has no upper limit, CLI11 prints the largest double as its upper limit.
std::string validation_text(const std::string& message) {
    static const std::regex kMember(R"((--[a-z-]+): (\S*) not in \{(.*)\})");
    static const std::regex kRange(R"((--[a-z-]+): Value (\S*) not in range (\S+) to (\S+))");
    std::smatch parts;
    if (message.ends_with(": " + kEmptyValue))
        return message.substr(0, message.find(": ")) + " " + kEmptyValue;
    if (std::regex_match(message, parts, kMember)) {
        const auto known = split_at(parts.str(3), ',');
        return fmt::format("{} is {}; allowed: {}{}", parts.str(1), parts.str(2),
                           fmt::join(known, ", "), spec::did_you_mean(parts.str(2), known));
    }
    if (!std::regex_match(message, parts, kRange)) return message;
    const auto plain = [](const std::string& number) {
        return std::regex_replace(number, std::regex(R"(\.0+$)"), "");
    };
    const std::string least = parts.str(3), most = parts.str(4);
    const std::string allowed = most.size() <= 20     ? plain(least) + " to " + plain(most)
                                : least == "0.000000" ? "a number above 0"
                                                      : "a number of at least " + plain(least);
    return fmt::format("{} is {}; allowed: {}", parts.str(1), parts.str(2), allowed);
}

// Returns the text to add to CLI11's message about an unexpected argument. For an option of sbatch,
// the text says what Roll does with the option. If the last word of `message` resembles an option
// of the command, the text is "; did you mean `--NAME`?". If a job is the only argument of the
// command, the text says that the command takes one job. Otherwise, the text is empty.
std::string advice(const std::string& message, const CLI::App& app) {
    const CLI::App* const command = &command_of(app);
    if (command->get_name() == "submit") {
        const std::size_t dash = std::min(message.rfind(" -"), message.size() - 1);
        const std::string word = message.substr(dash + 1);
        const std::string told = sbatch_advice(word.substr(0, word.find(' ')));
        if (!told.empty()) return "; " + told;
    }
    std::vector<std::string> known;
    std::string expected;
    for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
        if (option->get_positional()) expected += option->get_name(true);
    }
    const std::size_t dashes = message.rfind(" --");
    if (dashes == std::string::npos)
        return expected == "JOB" && message.find(" -") == std::string::npos
                   ? fmt::format("; `{}` takes one job", command->get_name())
                   : "";
    const std::string option = message.substr(dashes + 1);
    return spec::did_you_mean(option.substr(0, option.find('=')), known);
}

}  // namespace

Error unknown_command(const std::string& word, const std::vector<std::string>& known) {
    const std::string message = "unknown command `" + word + "`";
    if (const std::string instead = command_for(word); !instead.empty())
        return {ErrorCode::InvalidArgument, message + ", a command of Slurm", instead};
    return {ErrorCode::InvalidArgument, message + spec::did_you_mean(word, known),
            "rollctl --help"};
}

std::string problem_text(const CLI::ParseError& error, const CLI::App& app) {
    const std::string message = error.what();
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
        return conversion_text(message, app);
    if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr)
        return validation_text(message);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
        return message + advice(message, app);
    return message;
}

}  // namespace roll::cli
