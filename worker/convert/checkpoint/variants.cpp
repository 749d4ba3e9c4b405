#include "worker/convert/checkpoint/variants.hpp"

#include <algorithm>

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
                                    one.name + ", but no rule of the family names " + name);
    return packed;
}

Result<std::vector<families::CopiedTensor>> known_copies(const Source& source) {
    return families::copied_tensors(*source.family, source.config.native);
}

void add(Source& source, const std::string& native, const std::string& hf, const Shape& shape,
         families::Stage stage) {
    if (source.model.number.contains(hf)) return;
    families::NativeTensor tensor;
    tensor.name = native;
    tensor.shape = shape;
    tensor.sources = {{hf, shape}};
    tensor.stage = stage;
    source.model.add(tensor.sources[0]);
    source.native.push_back(std::move(tensor));
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
    // First collect in `fails` each condition that the shape of a tensor rules out. The shape of
    // another tensor may fit two conditions; `fails` may then rule out one of the two.
    std::set<std::string> fails;
    for (const families::PackedTensor& one : packed) {
        const auto there = found.find(one.name);
        if (there != found.end() && there->second != packed_layout(source.model, one).shape)
            fails.insert(one.condition);
    }
    // maps the name of a tensor to the condition under which the tensor has the found shape
    std::map<std::string, std::string> holds;
    for (const families::PackedTensor& one : packed) {
        if (one.condition.empty() || fails.contains(one.condition)) continue;
        const auto there = found.find(one.name);
        if (there == found.end()) continue;
        const auto [place, first] = holds.emplace(one.name, one.condition);
        if (!first)
            return fail(ErrorCode::InvalidArgument,
                        one.name + " of shape " + tensor::to_string(there->second) +
                            " matches two rules of the family: " + place->second + " and " +
                            one.condition,
                        "set ROLL_FAMILIES to a family file with only one of the two rules");
    }
    for (const families::PackedTensor& one : packed)
        if (!one.condition.empty()) source.config.native[one.condition] = false;
    for (const auto& [name, condition] : holds) source.config.native[condition] = true;
    return select_packed(source);
}

std::optional<TiedOutput> tied_output(const Source& source) {
    const auto embedding = std::find_if(
        source.native.begin(), source.native.end(),
        [](const auto& one) { return one.name == "embedding.word_embeddings.weight"; });
    const auto output =
        std::find_if(source.family->weights.begin(), source.family->weights.end(),
                     [](const auto& rule) { return rule.native == "output_layer.weight"; });
    if (embedding == source.native.end() || output == source.family->weights.end() ||
        source.model.number.contains(output->hf[0]) ||
        source.model.number.contains(families::kScore))
        return std::nullopt;
    return TiedOutput{output->hf[0], source.model.number.at(embedding->sources[0].name)};
}

Result<void> select_copies(Source& source) {
    source.model.copies.clear();
    ROLL_TRY(const auto copies, known_copies(source));
    const auto tied = tied_output(source);
    for (const families::CopiedTensor& copy : copies) {
        const auto field = source.config.native.find(copy.condition);
        if (!copy.condition.empty() && (field == source.config.native.end() || *field != true))
            continue;
        if (source.model.number.contains(copy.name)) continue;
        const auto found = source.model.number.find(copy.of);
        if (found == source.model.number.end() && !(tied && tied->name == copy.of))
            return fail(ErrorCode::InvalidArgument,
                        "family " + source.family->name + " declares " + copy.name + " a copy of " +
                            copy.of + ", but no rule of the family names " + copy.of);
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
    // Put copies last. If several tensors hold the same part of the model, the first of them is
    // read.
    std::stable_partition(source.tensors.begin(), source.tensors.end(),
                          [](const SourceTensor& one) { return !one.stored.optional; });
    return select_copies(source);
}

void carry_hf(Source& source, const Shapes& found) {
    for (const families::CarriedRule& rule : source.family->carried)
        for (const auto& [name, shape] : found)
            if (name.starts_with(rule.hf))
                add(source, rule.native + name.substr(rule.hf.size()), name, shape, rule.stage);
}

void carry_native(Source& source, const Shapes& found) {
    for (const families::CarriedRule& rule : source.family->carried)
        for (const auto& [name, shape] : found)
            if (name.starts_with(rule.native))
                add(source, name, rule.hf + name.substr(rule.native.size()), shape, rule.stage);
}

Result<void> carry_rank(Source& source, const formats::TorchFile& file, int pp) {
    const formats::McaLayout& layout = source.config.layout;
    const formats::Pickle& pickle = file.pickle();
    std::set<std::string> sections{"model", "model0"};
    if (pp == layout.pp - 1) sections.insert(formats::mca_chunk_key(layout, layout.vpp - 1));
    Shapes found;
    for (const std::string& section : sections) {
        const formats::PickleId* node = pickle.find(pickle.root(), section);
        if (node == nullptr) continue;
        ROLL_TRY(const formats::StateDict dict, file.state_dict(*node));
        for (const tensor::StridedView& view : dict.tensors)
            found.emplace(view.info.name, view.info.shape);
    }
    carry_native(source, found);
    return {};
}

}  // namespace roll::convert
