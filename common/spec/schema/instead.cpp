#include "common/spec/schema/instead.hpp"

namespace roll::spec {

std::optional<std::string> instead_of(const OrderedJson& schema, const std::string& file) {
    const auto found = schema.find("x-instead");
    if (found == schema.end()) return std::nullopt;
    for (const auto& [suffix, what] : found->items()) {
        if (!file.ends_with(suffix)) continue;
        auto text = what.get<std::string>();
        const std::string name = file.substr(0, file.size() - suffix.size());
        for (std::size_t at = 0; (at = text.find("FILE", at)) != std::string::npos;
             at += name.size())
            text.replace(at, 4, name);
        return text;
    }
    return std::nullopt;
}

}  // namespace roll::spec
