#include "cli/job/source.hpp"

#include <cctype>
#include <filesystem>

namespace roll::cli {

namespace fs = std::filesystem;

// Returns a job name made from the path of the job's program.
static std::string file_name(const std::string& program) {
    std::string name = fs::path(program).filename();
    for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
    }
    const bool starts_well = !name.empty() && std::isalnum(static_cast<unsigned char>(name[0]));
    return starts_well ? name.substr(0, 64) : "command";
}

Result<Source> command_source(const std::vector<std::string>& program) {
    ROLL_TRY(std::string here, working_directory());
    Json document = {{"kind", "command"}, {"name", file_name(program.front())}};
    document["command"] = program;
    return Source{"the command", std::move(document), std::move(here), {}, {}, 0};
}

Result<std::string> working_directory() {
    std::error_code error;
    std::string here = fs::current_path(error);
    if (!error) return here;
    return fail(ErrorCode::InvalidArgument,
                "the working directory cannot be read: " + error.message(),
                "cd to an existing directory and try again");
}

}  // namespace roll::cli
