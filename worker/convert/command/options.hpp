// Parses the command line of roll-convert, and of ROLL's tools/convert.py, into a value. Pure.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/edit.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/convert/request.hpp"

namespace roll::convert {

struct ConvertCommand {
    Request request;
    bool json = false;
    std::vector<std::string> ignored;  // options of ROLL's tool that have no effect in Roll
};
struct InspectCommand {
    std::string directory;
    OpenOptions open;
    std::string tensor;  // name of the tensor whose statistics to print; empty: list all tensors
    bool json = false;
};
struct VerifyCommand {
    std::string directory;
    OpenOptions open;
    bool json = false;
};
struct DiffCommand {
    std::string first;
    std::string second;
    OpenOptions open;
    bool cast = false;  // true: cast the tensors of `first` to the types of `second`
    bool json = false;
};
struct EditCommand {
    EditRequest request;
    bool json = false;
};
struct FamiliesCommand {
    std::string file;  // family file to check; empty: list the families
    bool json = false;
};
struct LaunchCommand {
    std::string file;
};
struct HelpCommand {
    std::string text;
};
struct VersionCommand {};
using CommandLine =
    std::variant<ConvertCommand, InspectCommand, VerifyCommand, DiffCommand, EditCommand,
                 FamiliesCommand, LaunchCommand, HelpCommand, VersionCommand>;

// Parses `arguments`, which do not include the program's name. Option names may contain - or _. A
// value follows its option after a space or =. Fails with InvalidArgument; the message names the
// option and its possible values.
Result<CommandLine> parse_command_line(std::span<const std::string> arguments);

}  // namespace roll::convert
