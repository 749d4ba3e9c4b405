#include "worker/convert/adapter/tensors.hpp"

#include <cstring>

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

void copy_matrix(const tensor::StridedView& from, std::byte* to, std::int64_t row_step,
                 std::int64_t column_step) {
    const std::int64_t size = tensor::bits_of(from.info.dtype) / 8;
    for (std::int64_t i = 0; i < from.info.shape[0]; ++i)
        for (std::int64_t j = 0; j < from.info.shape[1]; ++j)
            std::memcpy(to + (i * row_step + j * column_step) * size,
                        from.first + (i * from.strides[0] + j * from.strides[1]) * size,
                        static_cast<std::size_t>(size));
}

bool same_matrix(const tensor::StridedView& one, const tensor::StridedView& other) {
    if (one.info.dtype != other.info.dtype || one.info.shape != other.info.shape) return false;
    const auto contiguous = [](const tensor::StridedView& view) {
        const tensor::Shape& shape = view.info.shape;
        std::vector<std::byte> bytes(
            static_cast<std::size_t>(shape[0] * shape[1] * (tensor::bits_of(view.info.dtype) / 8)));
        copy_matrix(view, bytes.data(), shape[1], 1);
        return bytes;
    };
    return contiguous(one) == contiguous(other);
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
