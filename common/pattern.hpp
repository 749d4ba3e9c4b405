// Regular expressions (Perl syntax) that users write to match lines of logs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll {

class Pattern {
  public:
    // Compiles an expression. Fails with InvalidArgument if the expression is malformed.
    static Result<Pattern> make(std::string_view text);

    // Returns whether the line contains a match; false if the search gets too complex.
    bool occurs_in(std::string_view line) const;

  private:
    struct Compiled;
    explicit Pattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace roll
