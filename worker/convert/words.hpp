// The words of a command line: which options there are, under which other names, and what was
// given. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "common/error.hpp"

namespace roll::convert {

// InvalidArgument, with the way to the help.
tl::unexpected<Error> invalid(std::string what);

struct Words {
    std::vector<std::string> positional;
    std::map<std::string, std::string> options;  // by the name that it means
    std::vector<std::string> ignored;            // of ROLL, without effect on a conversion
};

// InvalidArgument names an option that there is not, lacks its value or is given twice.
Result<Words> split_words(std::span<const std::string> arguments);

// Reads options as they are asked for; finish() refuses those that nobody asked for.
class Options {
  public:
    explicit Options(std::map<std::string, std::string> values) : values_(std::move(values)) {}

    std::optional<std::string> text(const char* name);
    bool flag(const char* name) { return text(name) == "true"; }
    Result<void> size(const char* name, int& into);  // 1 to 4096; "None" leaves it as it is
    Result<void> finish() const;

  private:
    std::map<std::string, std::string> values_;
};

}  // namespace roll::convert
