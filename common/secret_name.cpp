#include "common/secret_name.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace roll {

bool looks_secret(std::string_view name) {
    std::string upper(name);
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (upper.starts_with("TOKENIZER")) return false;
    constexpr std::array kWords = {"TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD"};
    return std::ranges::any_of(
        kWords, [&](const char* word) { return upper.find(word) != std::string::npos; });
}

}  // namespace roll
