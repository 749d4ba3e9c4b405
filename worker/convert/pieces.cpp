#include "worker/convert/pieces.hpp"

namespace roll::convert {

int Model::add(const families::HfTensor& tensor) {
    const auto [place, added] = number.emplace(tensor.name, static_cast<int>(tensors.size()));
    if (added) tensors.push_back(tensor);
    return place->second;
}

Model model_of(const std::vector<families::NativeTensor>& native) {
    Model model;
    for (const families::NativeTensor& tensor : native)
        for (const families::HfTensor& source : tensor.sources) model.add(source);
    return model;
}

std::vector<Stored> hf_layout(const Model& model) {
    std::vector<Stored> stored;
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
        const families::HfTensor& tensor = model.tensors[i];
        const Shape zero(tensor.shape.size(), 0);
        stored.push_back({"",
                          "",
                          tensor.name,
                          tensor.shape,
                          {{static_cast<int>(i), zero, tensor.shape, zero}},
                          false});
    }
    return stored;
}

}  // namespace roll::convert
