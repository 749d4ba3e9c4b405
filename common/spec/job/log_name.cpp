#include "common/spec/job/log_name.hpp"

#include <algorithm>

namespace roll::spec {
namespace {

constexpr std::string_view kLetters = "%AaJjNnrstux";
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kWidthMax = 10;  // maximum width in a specifier, as in sbatch

struct Specifier {
    std::string_view text;  // the whole specifier, such as "%4j"; "%" if no letter follows
    std::size_t width = 0;
    char letter = 0;  // letter of the specifier; 0 if no letter follows
};

// Reads the specifier at the beginning of `name`, which starts with %.
Specifier read_specifier(std::string_view name) {
    const std::size_t end = name.find_first_not_of(kDigits, 1);
    if (end == std::string_view::npos) return {name, 0, 0};
    std::size_t width = 0;
    for (const char digit : name.substr(1, end - 1))
        width = std::min(width * 10 + static_cast<std::size_t>(digit - '0'), kWidthMax);
    return {name.substr(0, end + 1), width, name[end]};
}

bool is_number(const std::string& text) {
    return !text.empty() && text.find_first_not_of(kDigits) == std::string::npos;
}

// Calls visit(text, specifier) for each piece of the name; `specifier` is null for plain text.
template <class Visit>
void for_each_piece(std::string_view name, const Visit& visit) {
    while (!name.empty()) {
        if (name[0] == '%') {
            const Specifier found = read_specifier(name);
            visit(found.text, &found);
            name.remove_prefix(found.text.size());
            continue;
        }
        const std::string_view plain = name.substr(0, name.find('%'));
        visit(plain, static_cast<const Specifier*>(nullptr));
        name.remove_prefix(plain.size());
    }
}

}  // namespace

std::string expand_log_name(std::string_view name, const LogNameValues& values, bool last) {
    std::string result;
    for_each_piece(name, [&](std::string_view text, const Specifier* specifier) {
        const auto value = specifier == nullptr ? values.end() : values.find(specifier->letter);
        if (last && specifier != nullptr && specifier->letter == '%') {
            result += '%';
        } else if (value == values.end()) {
            result += text;
        } else {
            const std::size_t width = is_number(value->second) ? specifier->width : 0;
            result.append(width - std::min(width, value->second.size()), '0');
            result += value->second;
        }
    });
    return result;
}

std::optional<std::string> unknown_specifier(std::string_view name) {
    std::optional<std::string> unknown;
    for_each_piece(name, [&](std::string_view text, const Specifier* specifier) {
        const bool known =
            specifier == nullptr ||
            (specifier->letter != 0 && kLetters.find(specifier->letter) != std::string_view::npos);
        if (!known && !unknown) unknown = text;
    });
    return unknown;
}

bool has_specifier(std::string_view name, std::string_view letters) {
    bool found = false;
    for_each_piece(name, [&](std::string_view, const Specifier* specifier) {
        found |= specifier != nullptr && specifier->letter != 0 &&
                 letters.find(specifier->letter) != std::string_view::npos;
    });
    return found;
}

}  // namespace roll::spec
