#include "common/spec/train/convert.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "worker/convert/command/options.hpp"
#include "worker/convert/request.hpp"

namespace roll::cli {
namespace {

// Returns a job name made from the target's name. Characters that are not allowed in a name become
// dashes.
std::string job_name(const std::string& kind, const std::filesystem::path& target) {
    constexpr std::size_t kLongest = 64;
    std::string name = kind + "-" + target.lexically_normal().filename().string();
    // A target such as "out/" has no file name, so use the name of its directory.
    if (name.ends_with('-')) name += target.parent_path().filename().string();
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
    return name.substr(0, kLongest);
}

}  // namespace

Result<int> run_submit_conversion(const Context& context, const std::vector<std::string>& words,
                                  const SubmitOptions& options) {
    ROLL_TRY(const convert::CommandLine line, convert::parse_command_line(words));
    if (const auto* help = std::get_if<convert::HelpCommand>(&line)) {
        print(help->text);
        return 0;
    }
    const auto* command = std::get_if<convert::ConvertCommand>(&line);
    if (command == nullptr)
        return fail(ErrorCode::InvalidArgument,
                    "--submit works only with `rollctl convert` and `rollctl merge`");
    if (!command->request.part.alone())
        return fail(ErrorCode::InvalidArgument, "--part cannot be used with --submit",
                    "use --nodes N to let N nodes write the target together");
    for (const std::string& name : command->ignored)
        say(fmt::format("ignored: --{} has no effect on a conversion", name));
    Json document = Json::parse(spec::document_of(convert::spec_of(command->request)));
    document["name"] = job_name(words.front(), command->request.target);
    SubmitOptions submits = options;
    submits.dry_run = command->request.dry_run;
    ROLL_TRY(std::string here, working_directory());
    return submit_sources(context, submits,
                          {{words.front(), std::move(document), std::move(here)}});
}

}  // namespace roll::cli
