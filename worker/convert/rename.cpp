#include "worker/convert/rename.hpp"

#include <algorithm>
#include <vector>

#include "common/split.hpp"

namespace roll::convert {
namespace {}  // namespace

Result<NameRule> parse_renaming(const std::string& text) {
    const std::size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
        return fail(ErrorCode::InvalidArgument, "rename needs OLD=NEW, not \"" + text + "\"");
    NameRule rule{text.substr(0, at), text.substr(at + 1)};
    if (std::count(rule.name.begin(), rule.name.end(), '*') !=
        std::count(rule.to->begin(), rule.to->end(), '*'))
        return fail(ErrorCode::InvalidArgument,
                    "\"" + text + "\" must have as many * after the = as before it");
    return rule;
}

std::optional<std::string> renamed_by(const NameRule& rule, std::string_view name) {
    const std::vector<std::string> parts = split_at(rule.name, '*');
    if (!name.starts_with(parts.front())) return std::nullopt;
    std::string_view rest = name.substr(parts.front().size());
    std::vector<std::string> texts;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const bool last = i + 1 == parts.size();
        if (last && !rest.ends_with(parts[i])) return std::nullopt;
        const std::size_t at = last ? rest.size() - parts[i].size() : rest.find(parts[i]);
        if (at == std::string_view::npos) return std::nullopt;
        texts.emplace_back(rest.substr(0, at));
        rest.remove_prefix(at + parts[i].size());
    }
    if (!rest.empty()) return std::nullopt;
    if (!rule.to) return "";
    const std::vector<std::string> made = split_at(*rule.to, '*');
    std::string result = made.front();
    for (std::size_t i = 1; i < made.size(); ++i) result += texts[i - 1] + made[i];
    return result;
}

}  // namespace roll::convert
