#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"

namespace roll::cli {
namespace {

// Commands whose first argument is a job. The shell completes this argument with job ids.
constexpr std::string_view kOnJobs =
    "jobs|show|explain|logs|events|metrics|wait|cancel|close|hold|release|update|resume|resubmit|"
    "checkpoint|tell";
// Subcommands of `alloc` whose argument is a queue.
constexpr std::string_view kOnQueues = "pause|resume|remove|dry-run";
// Subcommands of `alloc` whose argument is the number of an allocation.
constexpr std::string_view kOnAllocations = "close|cancel";

constexpr const char* kBash = R"sh(# rollctl completion bash > /etc/bash_completion.d/rollctl
_rollctl() {
    local word=${COMP_WORDS[COMP_CWORD]} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@COMMANDS@" -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]}:$COMP_CWORD:${COMP_WORDS[2]} in
@VERBS@
        alloc:3:@QUEUES@) words=$(rollctl alloc list --parsable 2>/dev/null) ;;
        alloc:3:@ALLOCATIONS@) words=$(rollctl alloc list -o '{id}' 2>/dev/null) ;;
        @JOBS@) words="last all $(rollctl jobs -a --parsable 2>/dev/null)" ;;
        drain:* | undrain:*) words=$(rollctl nodes --parsable 2>/dev/null) ;;
        completion:*) words="bash zsh fish" ;;
        *) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _rollctl rollctl
)sh";

constexpr const char* kZsh = R"sh(#compdef rollctl
# rollctl completion zsh > ~/.zfunc/_rollctl
if (( CURRENT == 2 )); then
    compadd @COMMANDS@
else
    case $words[2]:$((CURRENT - 1)):$words[3] in
@VERBS@
        alloc:3:@QUEUES@) compadd $(rollctl alloc list --parsable 2>/dev/null) ;;
        alloc:3:@ALLOCATIONS@) compadd $(rollctl alloc list -o '{id}' 2>/dev/null) ;;
        @JOBS@) compadd last all $(rollctl jobs -a --parsable 2>/dev/null) ;;
        drain:*|undrain:*) compadd $(rollctl nodes --parsable 2>/dev/null) ;;
        completion:*) compadd bash zsh fish ;;
        *) _files ;;
    esac
fi
)sh";

constexpr const char* kFish = R"sh(# rollctl completion fish > \
#     ~/.config/fish/completions/rollctl.fish
complete -c rollctl -n __fish_use_subcommand -f -a "@COMMANDS@"
complete -c rollctl -n "not __fish_seen_subcommand_from alloc; and \
    __fish_seen_subcommand_from @JOBS@" -f -a "last all (rollctl jobs -a --parsable 2>/dev/null)"
complete -c rollctl -n "__fish_seen_subcommand_from drain undrain" -f \
    -a "(rollctl nodes --parsable 2>/dev/null)"
complete -c rollctl -n "__fish_seen_subcommand_from completion" -f -a "bash zsh fish"
complete -c rollctl -n "__fish_seen_subcommand_from alloc; and \
    __fish_seen_subcommand_from @QUEUES@" -f -a "(rollctl alloc list --parsable 2>/dev/null)"
complete -c rollctl -n "__fish_seen_subcommand_from alloc; and \
    __fish_seen_subcommand_from @ALLOCATIONS@" -f -a "(rollctl alloc list -o '{id}' 2>/dev/null)"
@VERBS@
)sh";

std::string put_in(std::string text, std::string_view mark, std::string_view words) {
    const std::size_t at = text.find(mark);
    return at == std::string::npos ? text : text.replace(at, mark.size(), words);
}

// Returns the words of a list such as "a|b" in the syntax of a shell: appends `after` to each word,
// and puts `between` between two words.
std::string spell(std::string_view words, std::string_view between, std::string_view after) {
    std::string text;
    for (const char c : words) {
        if (c == '|')
            text.append(after).append(between);
        else
            text += c;
    }
    return text.append(after);
}

// Returns one line for each command that has subcommands. `line` is the format of a line. The first
// placeholder of the format stands for the command, and the second placeholder for the list of
// subcommands.
std::string verb_lines(const Commands& commands,
                       fmt::format_string<const std::string&, const std::string&> line) {
    std::string text;
    for (const auto& [command, verbs] : commands) {
        if (verbs.empty()) continue;
        const std::string all = fmt::format("{}", fmt::join(verbs, " "));
        text += (text.empty() ? "" : "\n") + fmt::format(line, command, all);
    }
    return text;
}

struct Script {
    std::string text;
    std::string verbs;
    std::string jobs;
    std::string queues;
    std::string allocations;
};

std::optional<Script> script_of(const std::string& shell, const Commands& commands) {
    const std::string of_case = spell(kOnJobs, " | ", ":*");
    if (shell == "bash")
        return Script{kBash, verb_lines(commands, "        {}:2:*) words=\"{}\" ;;"), of_case,
                      spell(kOnQueues, " | alloc:3:", ""),
                      spell(kOnAllocations, " | alloc:3:", "")};
    if (shell == "zsh")
        return Script{kZsh, verb_lines(commands, "        {}:2:*) compadd {} ;;"), of_case,
                      spell(kOnQueues, " | alloc:3:", ""),
                      spell(kOnAllocations, " | alloc:3:", "")};
    if (shell == "fish")
        return Script{
            kFish,
            verb_lines(commands,
                       "complete -c rollctl -n \"__fish_seen_subcommand_from {0}; and \\\n"
                       "    not __fish_seen_subcommand_from {1}\" -f -a \"{1}\""),
            spell(kOnJobs, " ", ""), spell(kOnQueues, " ", ""), spell(kOnAllocations, " ", "")};
    return std::nullopt;
}

}  // namespace

Result<int> run_completion(const std::string& shell, const Commands& commands) {
    const auto script = script_of(shell, commands);
    if (!script) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("no completion for the shell {}; allowed: bash, zsh, fish", shell));
    }
    std::vector<std::string> names;
    for (const auto& [name, verbs] : commands) names.push_back(name);
    std::string text = put_in(script->text, "@COMMANDS@", fmt::format("{}", fmt::join(names, " ")));
    text = put_in(text, "@VERBS@", script->verbs);
    text = put_in(text, "@QUEUES@", script->queues);
    text = put_in(text, "@ALLOCATIONS@", script->allocations);
    print(put_in(text, "@JOBS@", script->jobs));
    return 0;
}

}  // namespace roll::cli
