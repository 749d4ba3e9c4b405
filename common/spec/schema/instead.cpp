#include "common/spec/schema/instead.hpp"

#include "common/replace.hpp"

namespace roll::spec {

std::optional<std::string> instead_of(const OrderedJson& schema, const std::string& file) {
    const auto found = schema.find("x-instead");
    if (found == schema.end()) return std::nullopt;
    for (const auto& [suffix, text] : found->items())
        if (file.ends_with(suffix))
            return replaced(text.get<std::string>(), "FILE",
                            file.substr(0, file.size() - suffix.size()));
    return std::nullopt;
}

}  // namespace roll::spec
