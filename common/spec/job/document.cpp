#include "common/spec/job/document.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace roll::spec {

Result<Json> read_document(std::string_view text) {
    constexpr int kDepthMax = 90;
    auto document = parse_json(text, kDepthMax);
    if (!document)
        return fail(ErrorCode::InvalidArgument, "the job's document: " + document.error().message);
    if (!document->is_object())
        return fail(ErrorCode::InvalidArgument, "the job's document is not a JSON object");
    return document;
}

Result<void> check_variants(const Json& document, std::size_t count) {
    if (count == 0) return {};
    const Json resources = document.is_object() ? document.value("resources", Json()) : Json();
    const Json variants = resources.is_object() ? resources.value("variants", Json()) : Json();
    const auto is_object = [](const Json& variant) { return variant.is_object(); };
    if (variants.is_array() && variants.size() == count && std::ranges::all_of(variants, is_object))
        return {};
    return fail(ErrorCode::InvalidArgument,
                "the job's document is damaged: its `variants` do not match the variants in the "
                "job's specification");
}

}  // namespace roll::spec
