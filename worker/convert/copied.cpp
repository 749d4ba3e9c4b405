#include "worker/convert/copied.hpp"

#include <algorithm>

#include "worker/convert/gather.hpp"
#include "worker/convert/source_config.hpp"

namespace roll::convert {
namespace {

Result<std::vector<families::CopiedTensor>> known_copies(const Source& source) {
    return families::copied_tensors(*source.family, source.config.native);
}

}  // namespace

Result<void> select_copies(Source& source) {
    source.model.copies.clear();
    ROLL_TRY(const auto copies, known_copies(source));
    const auto tied = tied_output(source);
    for (const families::CopiedTensor& copy : copies) {
        const auto field = source.config.native.find(copy.condition);
        if (!copy.condition.empty() && (field == source.config.native.end() || *field != true))
            continue;
        const auto found = source.model.number.find(copy.of);
        if (found == source.model.number.end() && !(tied && tied->name == copy.of))
            return fail(ErrorCode::InvalidArgument,
                        "family " + source.family->name + ": copy " + copy.name + " of " + copy.of +
                            ", but no rule of the family names the second tensor");
        source.model.copies.push_back(
            {copy.name, found == source.model.number.end() ? tied->embedding : found->second});
    }
    return {};
}

Result<void> settle_copies(Source& source, const std::set<std::string>& found) {
    ROLL_TRY(const auto copies, known_copies(source));
    for (const families::CopiedTensor& copy : copies)
        if (!copy.condition.empty()) source.config.native[copy.condition] = false;
    for (const families::CopiedTensor& copy : copies)
        if (!copy.condition.empty() && found.contains(copy.name))
            source.config.native[copy.condition] = true;
    // Puts copies last, because the first holder of a tensor in the list is the one that is read.
    std::stable_partition(source.tensors.begin(), source.tensors.end(),
                          [](const SourceTensor& one) { return !one.stored.optional; });
    return select_copies(source);
}

Result<void> check_copies(const Source& source) {
    if (source.model.copies.empty()) return {};
    ROLL_TRY(const Plan plan, make_plan(source, hf_layout(source.model), std::nullopt));
    for (const Comparison& comparison : plan.comparisons)
        if (source.tensors[comparison.second].stored.optional)
            ROLL_TRY_VOID(compare(source, comparison));
    return {};
}

}  // namespace roll::convert
