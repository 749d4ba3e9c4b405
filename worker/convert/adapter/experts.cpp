#include "worker/convert/adapter/experts.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "worker/convert/adapter/tensors.hpp"

namespace roll::convert {
namespace {

using families::NativeTensor;
using formats::LoraModule;
using tensor::StridedView;

constexpr const char* kInner = ".base_layer";

// One of the two tensors that stack a layer's experts, and the native tensors of these experts.
struct Stack {
    // name without the parameter's name, such as "model.layers.0.mlp.experts"
    std::string stem;
    std::string parameter;  // "gate_up_proj" or "down_proj"
    std::vector<const NativeTensor*> experts;
    bool alternates = false;  // true: rows of gate and up alternate

    std::string name() const { return stem + "." + parameter; }
    std::int64_t rows() const { return experts[0]->shape[0]; }
    std::int64_t columns() const { return experts[0]->shape[1]; }
};

std::int64_t size_of(const StridedView& view) { return tensor::bits_of(view.info.dtype) / 8; }

// Returns the beginning of a name up to and including its layer number, such as "model.layers.3.".
std::string layer_front(const std::string& name, std::int64_t layer) {
    const std::string word = ".layers." + std::to_string(layer) + ".";
    const std::size_t at = name.find(word);
    return at == std::string::npos ? "" : name.substr(0, at + word.size());
}

bool alternates(const Source& base, const NativeTensor& tensor) {
    return std::any_of(base.model.packed.begin(), base.model.packed.end(), [&](const auto& packed) {
        return packed.packing == families::Packing::Interleaved && !packed.members.empty() &&
               packed.members[0].size() > 1 && packed.members[0][0] == tensor.sources[0].name;
    });
}

// Returns the stacks of all layers in transformers' order: first gate and up, then down.
std::vector<Stack> stacks_of(const Source& base) {
    std::map<std::string, Stack> by_name;
    std::vector<std::string> order;
    for (const NativeTensor& tensor : base.native) {
        if (!tensor.expert || !tensor.layer || tensor.shape.size() != 2) continue;
        const std::string front = layer_front(tensor.sources[0].name, *tensor.layer);
        if (front.empty()) continue;
        Stack stack;
        stack.stem = front + "mlp.experts";
        stack.parameter = tensor.sources.size() > 1 ? "gate_up_proj" : "down_proj";
        const auto [place, added] = by_name.emplace(stack.name(), stack);
        if (added) {
            order.push_back(stack.name());
            if (*tensor.expert == 0) place->second.alternates = alternates(base, tensor);
        }
        place->second.experts.push_back(&tensor);
    }
    std::vector<Stack> stacks;
    for (const std::string& name : order) stacks.push_back(std::move(by_name[name]));
    return stacks;
}

// The rows of an expert's tensor that come from one of its HuggingFace sources. `first` is the
// first of these rows, and `step` is the distance between two of them.
struct Rows {
    std::int64_t first = 0;
    std::int64_t step = 1;
};
Rows rows_of(const Stack& stack, const NativeTensor& expert, std::size_t i) {
    if (stack.alternates)
        return {static_cast<std::int64_t>(i), static_cast<std::int64_t>(expert.sources.size())};
    Rows rows;
    for (std::size_t k = 0; k < i; ++k) rows.first += expert.sources[k].shape[0];
    return rows;
}

StridedView part_of(const StridedView& view, const Shape& first, Shape shape, Shape strides) {
    StridedView part = view;
    part.first += (first[0] * view.strides[0] + first[1] * view.strides[1]) * size_of(view);
    part.info.shape = std::move(shape);
    part.strides = std::move(strides);
    return part;
}

bool fits(const LoraModule& module, std::int64_t rows, std::int64_t columns) {
    return module.b.info.shape[0] == rows && module.a.info.shape[1] == columns;
}

class Splitter {
  public:
    Splitter(formats::Adapter& adapter, const Source& base)
        : adapter_(adapter),
          stacks_(stacks_of(base)) {}

    Result<void> run() {
        for (const LoraModule& module : adapter_.stacked) {
            std::string stem = module.module;
            while (stem.ends_with(kInner)) stem.resize(stem.size() - std::strlen(kInner));
            ROLL_TRY(const Stack* const stack, stack_for(module, stem));
            ROLL_TRY_VOID(split(module, *stack));
        }
        adapter_.stacked.clear();
        return {};
    }

  private:
    Result<const Stack*> stack_for(const LoraModule& module, const std::string& stem) const {
        for (const Stack& stack : stacks_)
            if (stack.stem == stem && (fits(module, stack.rows(), stack.columns()) ||
                                       fits(module, stack.columns(), stack.rows())))
                return &stack;
        return fail(ErrorCode::InvalidArgument,
                    "the adapter's " + module.module + " has A " +
                        tensor::to_string(module.a.info.shape) + " and B " +
                        tensor::to_string(module.b.info.shape) +
                        "; no tensor of stacked experts in the model has these sizes");
    }

    Result<void> split(const LoraModule& module, const Stack& stack) {
        const auto experts = static_cast<std::int64_t>(stack.experts.size());
        const double asked = formats::lora_rank(adapter_.config, stack.name());
        const std::int64_t r = module.a.info.shape[0] / experts;
        if (static_cast<double>(r) != asked || r * experts != module.a.info.shape[0])
            return fail(ErrorCode::Corrupt,
                        fmt::format("the matrix A of the adapter's {} has {} rows for {} experts; "
                                    "its config says rank {}",
                                    stack.name(), module.a.info.shape[0], experts, asked));
        const double scale = formats::lora_scale(adapter_.config, stack.name(), asked);
        for (std::int64_t e = 0; e < experts; ++e) {
            const NativeTensor& expert = *stack.experts[static_cast<std::size_t>(e)];
            for (std::size_t i = 0; i < expert.sources.size(); ++i) {
                LoraModule one = pair_of(module, stack, {e, experts, r}, i);
                one.module = module_of(expert.sources[i].name);
                one.scale = scale;
                adapter_.modules.push_back(std::move(one));
            }
        }
        return {};
    }

    struct Place {
        std::int64_t expert = 0;
        std::int64_t experts = 0;
        std::int64_t lora_rank = 0;
    };

    // Returns A and B of source tensor `i` of one expert. PEFT before 0.18 stored A and B
    // transposed, because it computed the weight change as A^T B^T instead of B A.
    static LoraModule pair_of(const LoraModule& module, const Stack& stack, const Place& place,
                              std::size_t i) {
        const NativeTensor& expert = *stack.experts[static_cast<std::size_t>(place.expert)];
        const Shape& shape = expert.sources[i].shape;
        const Rows rows = rows_of(stack, expert, i);
        const StridedView& a = module.a;
        const StridedView& b = module.b;
        const std::int64_t r = place.lora_rank;
        LoraModule one = module;
        if (fits(module, stack.rows(), stack.columns())) {
            one.a = part_of(a, {place.expert * r, 0}, {r, shape[1]}, a.strides);
            one.b = part_of(b, {rows.first, place.expert}, {shape[0], r},
                            {b.strides[0] * rows.step, b.strides[1] * place.experts});
        } else {
            one.a = part_of(b, {0, place.expert}, {r, shape[1]},
                            {b.strides[1] * place.experts, b.strides[0]});
            one.b = part_of(a, {place.expert * r, rows.first}, {shape[0], r},
                            {a.strides[1] * rows.step, a.strides[0]});
        }
        return one;
    }

    formats::Adapter& adapter_;
    std::vector<Stack> stacks_;
};

using Bytes = std::vector<std::byte>;

class Joiner {
  public:
    Joiner(const formats::Adapter& adapter, const Source& base)
        : result_(adapter),
          stacks_(stacks_of(base)) {
        for (const LoraModule& module : adapter.modules) modules_[module.module] = &module;
    }

    formats::Adapter run() && {
        std::set<std::string> joined;
        std::string stem;
        for (const Stack& stack : stacks_) {
            if (!is_asked(stack.parameter) || !can_join(stack)) continue;
            // The two stacks of a layer have the same stem. PEFT nests their modules: the module of
            // the first stack is inside the module of the second stack.
            if (stack.stem == stem) result_.stacked.back().module += kInner;
            stem = stack.stem;
            join(stack);
            for (const NativeTensor* expert : stack.experts)
                for (const families::HfTensor& source : expert->sources)
                    joined.insert(module_of(source.name));
        }
        std::erase_if(result_.modules,
                      [&](const LoraModule& one) { return joined.contains(one.module); });
        using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
        result_.file.keep = std::make_shared<Both>(result_.file.keep, kept_);
        return std::move(result_);
    }

  private:
    bool is_asked(const std::string& parameter) const {
        const Json asked = result_.config.value("target_parameters", Json());
        return asked.is_array() && std::any_of(asked.begin(), asked.end(), [&](const Json& one) {
                   return one.is_string() && one.get<std::string>().ends_with(parameter);
               });
    }

    // Returns true if every expert has LoRA with the same rank and scale, and all tensors of an
    // expert have the same A.
    bool can_join(const Stack& stack) const {
        const LoraModule* first = nullptr;
        for (const NativeTensor* expert : stack.experts) {
            const LoraModule* own = nullptr;
            for (const families::HfTensor& source : expert->sources) {
                const auto found = modules_.find(module_of(source.name));
                if (found == modules_.end() || found->second->magnitude) return false;
                const LoraModule* one = found->second;
                if (first == nullptr) first = one;
                if (own == nullptr) own = one;
                if (one->scale != first->scale || one->a.info.shape != first->a.info.shape ||
                    one->a.info.dtype != first->a.info.dtype ||
                    one->b.info.dtype != first->a.info.dtype || !same_matrix(one->a, own->a))
                    return false;
            }
        }
        return first != nullptr;
    }

    void join(const Stack& stack) {
        const LoraModule& first = *modules_.at(module_of(stack.experts[0]->sources[0].name));
        const auto experts = static_cast<std::int64_t>(stack.experts.size());
        const std::int64_t r = first.a.info.shape[0];
        LoraModule all = first;
        all.module = stack.stem;
        all.parameter = stack.name();
        all.lora_rank = r;
        std::byte* const all_a = make(all.a, {experts * r, stack.columns()});
        std::byte* const all_b = make(all.b, {stack.rows(), r * experts});
        const std::int64_t size = size_of(first.a);
        for (std::int64_t e = 0; e < experts; ++e) {
            const NativeTensor& expert = *stack.experts[static_cast<std::size_t>(e)];
            for (std::size_t i = 0; i < expert.sources.size(); ++i) {
                const LoraModule& one = *modules_.at(module_of(expert.sources[i].name));
                const Rows rows = rows_of(stack, expert, i);
                copy_matrix(one.a, all_a + e * r * stack.columns() * size, stack.columns(), 1);
                copy_matrix(one.b, all_b + (rows.first * r * experts + e) * size,
                            rows.step * r * experts, experts);
            }
        }
        result_.stacked.push_back(std::move(all));
    }

    // Makes `view` a view of a new buffer of zeros, which the result keeps alive. Returns the
    // buffer.
    std::byte* make(StridedView& view, Shape shape) {
        kept_->emplace_back(static_cast<std::size_t>(shape[0] * shape[1] * size_of(view)));
        view = {{"", view.info.dtype, shape}, tensor::row_major(shape), kept_->back().data()};
        return kept_->back().data();
    }

    formats::Adapter result_;
    std::vector<Stack> stacks_;
    std::map<std::string, const LoraModule*> modules_;
    std::shared_ptr<std::vector<Bytes>> kept_ = std::make_shared<std::vector<Bytes>>();
};

}  // namespace

Result<void> split_experts(formats::Adapter& adapter, const Source& base) {
    return adapter.stacked.empty() ? Result<void>() : Splitter(adapter, base).run();
}

formats::Adapter join_experts(const formats::Adapter& adapter, const Source& base) {
    return Joiner(adapter, base).run();
}

}  // namespace roll::convert
