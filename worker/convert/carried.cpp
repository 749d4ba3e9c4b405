#include "worker/convert/carried.hpp"

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

}  // namespace roll::convert
