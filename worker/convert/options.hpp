// The command line of roll-convert, and of ROLL's tools/convert.py, as a value. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/convert.hpp"
#include "worker/convert/edit.hpp"

namespace roll::convert {

struct ConvertCommand {
    Request request;
    bool json = false;
    std::vector<std::string> ignored;  // options of ROLL that no conversion depends on
};
struct InspectCommand {
    std::string directory;
    OpenOptions open;
    std::string tensor;  // whose numbers are told instead; empty: none
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
    bool cast = false;  // compare over types: the first is cast to the second's
    bool json = false;
};
struct EditCommand {
    EditRequest request;
    bool json = false;
};
struct FamiliesCommand {
    std::string file;  // empty: list
    bool json = false;
};
struct LaunchCommand {
    std::string file;
};
struct HelpCommand {};
struct VersionCommand {};
using CommandLine =
    std::variant<ConvertCommand, InspectCommand, VerifyCommand, DiffCommand, EditCommand,
                 FamiliesCommand, LaunchCommand, HelpCommand, VersionCommand>;

// `arguments` without the program's name. InvalidArgument names the option and what it takes.
// Names may be spelled with - or _, values follow after a space or =.
Result<CommandLine> parse_command_line(std::span<const std::string> arguments);

// "hf", "mca", "torch_dist", "dcp"; and "keep" (nothing), "fp32", "bf16", "fp16".
Result<Format> parse_format(const std::string& name);
Result<std::optional<tensor::DType>> parse_dtype_name(const std::string& name);
std::string dtype_word(std::optional<tensor::DType> dtype);  // its inverse

// "transformer_layer" (false) or "mtp_model_layer" (true), and its inverse.
Result<bool> parse_mtp_layer_name(const std::string& name);
std::string mtp_layer_name(bool newer);

// "512MiB", "5GB", "1000": bytes.
Result<std::int64_t> parse_bytes(const std::string& text);

std::string help_text();

}  // namespace roll::convert
