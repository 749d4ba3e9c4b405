#include "common/spec/schema/placeholders.hpp"

namespace roll::spec {

bool is_reference(const std::string& path) {
    bool first = false;
    replace_references(path, [&](const Reference& reference) {
        first |= path.starts_with("{" + reference.job + "." + reference.what + "}");
        return std::string();
    });
    return first;
}

}  // namespace roll::spec
