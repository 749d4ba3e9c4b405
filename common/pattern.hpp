// Regular expressions of users (Perl's syntax), applied to lines of logs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll {

class Pattern {
  public:
    // Error InvalidArgument: it is none.
    static Result<Pattern> make(std::string_view text);

    // Whether it occurs in the line. One that would take for ever is given up and does not.
    bool occurs_in(std::string_view line) const;

  private:
    struct Compiled;
    explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace roll
