// Splits a command line into words: the known options, their aliases and the given values. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"

namespace roll::convert {

// Returns an InvalidArgument error with the hint to read the help.
tl::unexpected<Error> invalid(std::string what);

struct Words {
    std::vector<std::string> positional;
    std::map<std::string, std::string> options;  // value by name, aliases replaced
    std::vector<std::string> ignored;            // ROLL's options without effect on a conversion
};

// Returns the words of a command line. Fails with InvalidArgument if an option is unknown, lacks
// its value or is given twice; the message names the option.
Result<Words> split_words(std::span<const std::string> arguments);

// Returns option values by name. finish() fails if there is a value that was not asked for.
class Options {
  public:
    explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}

    std::optional<std::string> text(const char* name);
    bool flag(const char* name) { return text(name) == "true"; }
    Result<void> size(const char* name, int& into);  // 1 to 4096; "None" leaves `into` unchanged
    Result<void> finish() const;

  private:
    std::map<std::string, std::string> values_;
};

}  // namespace roll::convert
