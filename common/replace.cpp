#include "common/replace.hpp"

namespace roll {

std::string replaced(std::string_view text, std::string_view mark, std::string_view value) {
    std::string out;
    std::size_t from = 0;
    for (auto at = text.find(mark); at != text.npos; at = text.find(mark, from)) {
        out.append(text, from, at - from).append(value);
        from = at + mark.size();
    }
    return out.append(text, from);
}

}  // namespace roll
