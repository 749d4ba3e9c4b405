#include "worker/chat/call.hpp"

#include <algorithm>

namespace roll::chat {

const Value* Call::find(std::size_t position, std::string_view keyword) const {
    if (position < positional.size()) return &positional[position];
    const auto found = std::ranges::find(keywords, keyword);
    return found == keywords.end() ? nullptr
                                   : &named[static_cast<std::size_t>(found - keywords.begin())];
}

const Value* Call::given(std::size_t position, std::string_view keyword) const {
    const Value* const found = find(position, keyword);
    return found == nullptr || found->is(Kind::None) ? nullptr : found;
}

const Value& Call::need(std::size_t position, std::string_view keyword) const {
    const Value* const found = find(position, keyword);
    if (found == nullptr)
        refuse(std::string(name) + " needs argument number " + std::to_string(position + 1));
    return *found;
}

bool Call::flag(std::size_t position, std::string_view keyword, bool usual) const {
    const Value* const found = find(position, keyword);
    return found == nullptr ? usual : truth(*found);
}

std::optional<std::string_view> Call::text_if_given(std::size_t position,
                                                    std::string_view keyword) const {
    const Value* const found = given(position, keyword);
    if (found == nullptr) return std::nullopt;
    if (found->is(Kind::String)) return found->text();
    refuse(std::string(name) + ": an argument is " + name_of(found->kind) + " instead of a string");
}

}  // namespace roll::chat
