// The arguments of a call in a template.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "worker/chat/value.hpp"

namespace roll::chat {

// A call of a filter, a test, a function or a method. The first positional argument of a filter
// or a test is the value to which it is applied.
struct Call {
    std::string_view name;
    std::span<const Value> positional;
    std::span<const std::string> keywords;
    std::span<const Value> named;  // values of the arguments that `keywords` names

    // Returns the argument at `position` or with the name `keyword`; nullptr if it is not given.
    const Value* find(std::size_t position, std::string_view keyword) const;
    // Like find(), but also returns nullptr if the argument is None.
    const Value* given(std::size_t position, std::string_view keyword) const;
    const Value& need(std::size_t position, std::string_view keyword) const;
    bool flag(std::size_t position, std::string_view keyword, bool usual) const;
    // Returns the argument's text; nullopt if the argument is not given or is None. Fails if the
    // argument is not a string.
    std::optional<std::string_view> text_if_given(std::size_t position,
                                                  std::string_view keyword) const;
    // Like text_if_given(), with `usual` instead of nullopt.
    std::string_view text(std::size_t position, std::string_view keyword,
                          std::string_view usual) const {
        return text_if_given(position, keyword).value_or(usual);
    }
};

}  // namespace roll::chat
