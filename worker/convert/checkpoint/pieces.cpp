#include "worker/convert/checkpoint/pieces.hpp"

#include <algorithm>

namespace roll::convert {

int Model::add(const families::HfTensor& tensor) {
    const auto [place, added] = number.emplace(tensor.name, static_cast<int>(tensors.size()));
    if (added) tensors.push_back(tensor);
    return place->second;
}

Model model_of(const std::vector<families::NativeTensor>& native) {
    Model model;
    for (const families::NativeTensor& tensor : native)
        for (const families::HfTensor& source : tensor.sources) {
            const int number = model.add(source);
            if (tensor.add != 0) model.additions[number] = tensor.add;
            if (tensor.keeps_fp32) model.keeps_fp32.insert(number);
        }
    return model;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

Stored whole_tensor(const Model& model, int number) {
    const families::HfTensor& tensor = model.tensors[static_cast<std::size_t>(number)];
    const Shape zero(tensor.shape.size(), 0);
    return {"", "", tensor.name, tensor.shape, {{number, zero, tensor.shape, zero}}, false};
}

std::vector<Stored> hf_layout(const Model& model) {
    std::vector<Stored> stored;
    for (std::size_t i = 0; i < model.tensors.size(); ++i)
        stored.push_back(whole_tensor(model, static_cast<int>(i)));
    return stored;
}

// Returns the layout of a packed tensor. Index e of its first dim is a matrix with the `count`
// members of expert e. In this matrix, the rows of the members follow each other (Stacked) or
// alternate (Interleaved: every count-th row belongs to the same member). Unless the packing is
// Stacked, the matrix is transposed.
Stored packed_layout(const Model& model, const families::PackedTensor& packed) {
    const bool turned = packed.packing != families::Packing::Stacked;
    const bool alternates = packed.packing == families::Packing::Interleaved;
    const auto experts = static_cast<std::int64_t>(packed.members.size());
    const auto count = static_cast<std::int64_t>(packed.members[0].size());
    const Shape& member =
        model.tensors[static_cast<std::size_t>(model.number.at(packed.members[0][0]))].shape;
    Stored stored;
    stored.name = packed.name;
    stored.shape = member;
    stored.shape[0] *= count;
    if (turned) std::reverse(stored.shape.begin(), stored.shape.end());
    stored.shape.insert(stored.shape.begin(), experts);
    Placing placing;
    for (std::size_t dim = 0; dim < member.size(); ++dim) {
        placing.axes.push_back(turned ? member.size() - dim : dim + 1);
        placing.steps.push_back(dim == 0 && alternates ? count : 1);
    }
    for (std::int64_t expert = 0; expert < experts; ++expert)
        for (std::int64_t i = 0; i < count; ++i) {
            const int hf = model.number.at(
                packed.members[static_cast<std::size_t>(expert)][static_cast<std::size_t>(i)]);
            Piece piece{hf, Shape(member.size(), 0), member, Shape(stored.shape.size(), 0),
                        placing};
            piece.stored_begin[0] = expert;
            piece.stored_begin[placing.axes[0]] = alternates ? i : i * member[0];
            stored.pieces.push_back(std::move(piece));
        }
    return stored;
}

std::vector<Stored> hf_disk_layout(const Model& model) {
    std::vector<Stored> apart = hf_layout(model);
    std::map<int, const families::PackedTensor*> first;
    std::vector<bool> packed(apart.size(), false);
    for (const families::PackedTensor& one : model.packed) {
        first[model.number.at(one.members[0][0])] = &one;
        for (const auto& members : one.members)
            for (const std::string& name : members)
                packed[static_cast<std::size_t>(model.number.at(name))] = true;
    }
    std::vector<Stored> stored;
    for (std::size_t i = 0; i < apart.size(); ++i) {
        if (const auto found = first.find(static_cast<int>(i)); found != first.end())
            stored.push_back(packed_layout(model, *found->second));
        else if (!packed[i])
            stored.push_back(std::move(apart[i]));
    }
    for (const Model::SecondName& copy : model.copies) {
        Stored second = whole_tensor(model, copy.hf);
        second.name = copy.name;
        stored.push_back(std::move(second));
    }
    return stored;
}

}  // namespace roll::convert
