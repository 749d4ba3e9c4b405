#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"

namespace roll::cli {
namespace {

// Commands whose first argument is a job: completed from the queue.
constexpr const char* kOnJobs =
    "show|explain|logs|events|metrics|wait|cancel|close|hold|release|update|resume";

constexpr const char* kBash = R"sh(# rollctl completion bash > /etc/bash_completion.d/rollctl
_rollctl() {
    local word=${COMP_WORDS[COMP_CWORD]} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@COMMANDS@" -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
        @JOBS@) words="last all $(rollctl jobs -a --parsable 2>/dev/null)" ;;
        drain | undrain) words=$(rollctl nodes --parsable 2>/dev/null) ;;
        completion) words="bash zsh fish" ;;
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
    case $words[2] in
        @JOBS@) compadd last all $(rollctl jobs -a --parsable 2>/dev/null) ;;
        drain|undrain) compadd $(rollctl nodes --parsable 2>/dev/null) ;;
        completion) compadd bash zsh fish ;;
        *) _files ;;
    esac
fi
)sh";

constexpr const char* kFish = R"sh(# rollctl completion fish > \
#     ~/.config/fish/completions/rollctl.fish
complete -c rollctl -n __fish_use_subcommand -f -a "@COMMANDS@"
complete -c rollctl -n "__fish_seen_subcommand_from @SPACED_JOBS@" -f \
    -a "last all (rollctl jobs -a --parsable 2>/dev/null)"
complete -c rollctl -n "__fish_seen_subcommand_from drain undrain" -f \
    -a "(rollctl nodes --parsable 2>/dev/null)"
)sh";

std::string put_in(std::string text, std::string_view mark, const std::string& words) {
    const std::size_t at = text.find(mark);
    return at == std::string::npos ? text : text.replace(at, mark.size(), words);
}

}  // namespace

Result<int> run_completion(const std::string& shell, const std::vector<std::string>& commands) {
    const char* script = shell == "bash"   ? kBash
                         : shell == "zsh"  ? kZsh
                         : shell == "fish" ? kFish
                                           : nullptr;
    if (script == nullptr) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("there is no completion for {}; allowed: bash, zsh, fish", shell));
    }
    std::string spaced = kOnJobs;
    std::replace(spaced.begin(), spaced.end(), '|', ' ');
    std::string text = put_in(script, "@COMMANDS@", fmt::format("{}", fmt::join(commands, " ")));
    text = put_in(text, "@SPACED_JOBS@", spaced);
    print(put_in(text, "@JOBS@", kOnJobs));
    return 0;
}

}  // namespace roll::cli
