#include "worker/convert/packed.hpp"

#include <set>

namespace roll::convert {
namespace {

Result<std::vector<families::PackedTensor>> known_packed(const Source& source) {
    ROLL_TRY(auto packed, families::packed_tensors(*source.family, source.config.native,
                                                   source.config.hf_config));
    for (const families::PackedTensor& one : packed)
        for (const auto& members : one.members)
            for (const std::string& name : members)
                if (!source.model.number.contains(name))
                    return fail(ErrorCode::InvalidArgument,
                                "family " + source.family->name + " packs " + name + " into " +
                                    one.name + ", but no rule names the first of these tensors");
    return packed;
}

}  // namespace

Result<void> select_packed(Source& source) {
    ROLL_TRY(auto packed, known_packed(source));
    source.model.packed.clear();
    for (families::PackedTensor& one : packed) {
        const auto field = source.config.native.find(one.condition);
        if (!one.condition.empty() && (field == source.config.native.end() || *field != true))
            continue;
        source.model.packed.push_back(std::move(one));
    }
    return {};
}

Result<void> settle_packed(Source& source, const Shapes& found) {
    if (source.family->packed.empty()) return {};
    ROLL_TRY(const auto packed, known_packed(source));
    // First find the conditions that some tensor's shape rules out, because the shape of another
    // tensor may fit two conditions.
    std::set<std::string> fails;
    for (const families::PackedTensor& one : packed) {
        const auto there = found.find(one.name);
        if (there != found.end() && there->second != packed_layout(source.model, one).shape)
            fails.insert(one.condition);
    }
    // name of a tensor -> the condition that its shape fits
    std::map<std::string, std::string> holds;
    for (const families::PackedTensor& one : packed) {
        if (one.condition.empty() || fails.contains(one.condition)) continue;
        const auto there = found.find(one.name);
        if (there == found.end()) continue;
        const auto [place, first] = holds.emplace(one.name, one.condition);
        if (!first)
            return fail(ErrorCode::InvalidArgument,
                        one.name + " of shape " + tensor::to_string(there->second) + " may be " +
                            place->second + " or " + one.condition +
                            ": the shape matches both rules",
                        "set ROLL_FAMILIES to a family file with only one of the two rules");
    }
    for (const families::PackedTensor& one : packed)
        if (!one.condition.empty()) source.config.native[one.condition] = false;
    for (const auto& [name, condition] : holds) source.config.native[condition] = true;
    return select_packed(source);
}

}  // namespace roll::convert
