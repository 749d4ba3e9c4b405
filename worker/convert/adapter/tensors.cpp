#include "worker/convert/adapter/tensors.hpp"

namespace roll::convert {

using formats::Adapter;

std::vector<tensor::StridedView> peft_tensors(const Adapter& adapter) {
    const std::string front = "base_model.model.";
    std::vector<tensor::StridedView> views;
    const auto add = [&](const std::string& name, const tensor::StridedView& view) {
        views.push_back(view);
        views.back().info.name = front + name;
    };
    for (const formats::LoraModule& module : adapter.stacked) {
        add(module.module + ".lora_A.weight", module.a);
        add(module.module + ".lora_B.weight", module.b);
    }
    for (const formats::LoraModule& module : adapter.modules) {
        const std::string a = module.embedding ? ".lora_embedding_A" : ".lora_A.weight";
        const std::string b = module.embedding ? ".lora_embedding_B" : ".lora_B.weight";
        add(module.module + a, module.a);
        add(module.module + b, module.b);
        if (module.magnitude) add(module.module + ".lora_magnitude_vector", *module.magnitude);
    }
    for (const tensor::StridedView& view : adapter.whole) add(view.info.name, view);
    return views;
}

Source source_of(const std::vector<tensor::StridedView>& views) {
    Source source;
    for (const tensor::StridedView& view : views) {
        const int number = source.model.add({view.info.name, view.info.shape});
        const Shape zero(view.info.shape.size(), 0);
        Stored stored;
        stored.file = kPeftFile;
        stored.name = view.info.name;
        stored.shape = view.info.shape;
        stored.pieces = {{number, zero, view.info.shape, zero}};
        source.tensors.push_back({std::move(stored), view});
    }
    return source;
}

}  // namespace roll::convert
