#include "worker/convert/carried.hpp"

#include <set>

namespace roll::convert {
namespace {

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
