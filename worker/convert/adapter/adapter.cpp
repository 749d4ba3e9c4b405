#include "worker/convert/adapter/adapter.hpp"

#include <algorithm>

#include "worker/convert/adapter/experts.hpp"
#include "worker/convert/adapter/native.hpp"
#include "worker/convert/adapter/tensors.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/families/score.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using families::NativeTensor;
using formats::Adapter;
using formats::LoraModule;

std::int64_t bytes_of(tensor::DType dtype) { return tensor::bits_of(dtype) / 8; }

// A matrix of zeros into which other matrices are copied as blocks.
class Block {
  public:
    Block(tensor::DType dtype, std::int64_t rows, std::int64_t columns)
        : dtype_(dtype),
          rows_(rows),
          columns_(columns),
          bytes_(std::make_shared<std::vector<std::byte>>(
              static_cast<std::size_t>(rows * columns * bytes_of(dtype)))) {}

    void copy(const tensor::StridedView& from, std::int64_t row, std::int64_t column) {
        copy_matrix(from, bytes_->data() + (row * columns_ + column) * bytes_of(dtype_), columns_,
                    1);
    }

    tensor::StridedView view() const {
        return {{"", dtype_, {rows_, columns_}}, {columns_, 1}, bytes_->data()};
    }
    std::shared_ptr<const void> keep() const { return bytes_; }

  private:
    tensor::DType dtype_;
    std::int64_t rows_;
    std::int64_t columns_;
    std::shared_ptr<std::vector<std::byte>> bytes_;
};

// The LoRA modules of a native tensor, in the order of NativeTensor::sources. The entry for a
// HuggingFace tensor without LoRA is null.
using Members = std::vector<const LoraModule*>;

struct Fused {
    std::int64_t lora_rank = 0;
    double scale = 0;
    tensor::StridedView a;
    // LoRA's matrix B for each HuggingFace tensor in the fused tensor
    std::vector<tensor::StridedView> b;
    std::vector<std::shared_ptr<const void>> keep;
};

bool can_share(const Members& members) {
    return std::all_of(members.begin(), members.end(), [&](const LoraModule* one) {
        return one != nullptr && one->scale == members[0]->scale &&
               same_matrix(one->a, members[0]->a);
    });
}

Result<Fused> fuse(const NativeTensor& tensor, const Members& members) {
    Fused fused;
    if (can_share(members)) {
        fused.lora_rank = members[0]->a.info.shape[0];
        fused.scale = members[0]->scale;
        fused.a = members[0]->a;
        for (const LoraModule* one : members) fused.b.push_back(one->b);
        return fused;
    }
    const LoraModule* first = nullptr;
    for (const LoraModule* one : members) {
        if (one == nullptr) continue;
        if (first == nullptr) first = one;
        if (one->scale != first->scale || one->a.info.dtype != first->a.info.dtype ||
            one->b.info.dtype != first->a.info.dtype ||
            one->a.info.shape[1] != first->a.info.shape[1])
            return fail(ErrorCode::InvalidArgument,
                        one->module + " and " + first->module +
                            " differ in LoRA scale, element type or input size; " +
                            module_of(tensor.name) +
                            " joins both modules, so these values must be equal");
        fused.lora_rank += one->a.info.shape[0];
    }
    fused.scale = first->scale;
    const tensor::DType dtype = first->a.info.dtype;
    Block a(dtype, fused.lora_rank, first->a.info.shape[1]);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
        Block b(dtype, tensor.sources[i].shape[0], fused.lora_rank);
        if (members[i] != nullptr) {
            a.copy(members[i]->a, at, 0);
            b.copy(members[i]->b, 0, at);
            at += members[i]->a.info.shape[0];
        }
        fused.b.push_back(b.view());
        fused.keep.push_back(b.keep());
    }
    fused.a = a.view();
    fused.keep.push_back(a.keep());
    return fused;
}

class Converter {
  public:
    Converter(const formats::Adapter& adapter, const Source& base)
        : adapter_(adapter),
          base_(base) {
        result_.source.config = base.config;
        result_.source.family = base.family;
        result_.source.directory = base.directory;
        result_.source.storage.files = {adapter.file.keep};
        for (const LoraModule& module : adapter.modules) modules_[module.module] = &module;
        for (const tensor::StridedView& view : adapter.whole) whole_[view.info.name] = &view;
    }

    Result<NativeAdapter> run() && {
        for (const NativeTensor& tensor : base_.native) {
            ROLL_TRY_VOID(add_whole(tensor));
            ROLL_TRY_VOID(add_lora(tensor));
        }
        if (!modules_.empty() || !whole_.empty())
            return fail(ErrorCode::InvalidArgument,
                        "the adapter changes " +
                            (modules_.empty() ? whole_.begin()->first : modules_.begin()->first) +
                            ", but the model has no tensor with this name; give the base model of "
                            "this adapter");
        return std::move(result_);
    }

  private:
    void add(NativeTensor tensor, const std::vector<tensor::StridedView>& views) {
        Source& source = result_.source;
        for (std::size_t i = 0; i < views.size(); ++i) {
            const int number = source.model.add(tensor.sources[i]);
            Stored stored = whole_tensor(source.model, number);
            stored.file = "adapter";
            source.tensors.push_back({std::move(stored), views[i]});
        }
        source.native.push_back(std::move(tensor));
    }

    Result<void> add_whole(const NativeTensor& tensor) {
        std::vector<tensor::StridedView> views;
        for (const families::HfTensor& source : tensor.sources) {
            const auto found = whole_.find(source.name);
            if (found == whole_.end()) continue;
            if (found->second->info.shape != source.shape)
                return fail(ErrorCode::InvalidArgument,
                            "the adapter's " + source.name + " has shape " +
                                tensor::to_string(found->second->info.shape) + ", the model's " +
                                tensor::to_string(source.shape));
            views.push_back(*found->second);
            whole_.erase(found);
        }
        if (views.empty()) return {};
        if (views.size() != tensor.sources.size())
            return fail(
                ErrorCode::InvalidArgument,
                "the adapter stores full (not low-rank) weights for only a part of " + tensor.name +
                    "; it must store full weights for all parts of this tensor or for none");
        result_.whole.push_back(module_of(tensor.name));
        add(tensor, views);
        return {};
    }

    Result<void> add_lora(const NativeTensor& tensor) {
        if (!tensor.name.ends_with(".weight")) return {};
        Members members;
        for (const families::HfTensor& source : tensor.sources) {
            const auto found = modules_.find(module_of(source.name));
            members.push_back(found == modules_.end() ? nullptr : found->second);
            if (found != modules_.end()) modules_.erase(found);
        }
        if (std::all_of(members.begin(), members.end(), [](auto* one) { return one == nullptr; }))
            return {};
        ROLL_TRY_VOID(check(tensor, members));
        ROLL_TRY(const Fused fused, fuse(tensor, members));
        result_.source.storage.files.insert(result_.source.storage.files.end(), fused.keep.begin(),
                                            fused.keep.end());
        result_.modules.push_back({module_of(tensor.name), fused.lora_rank, fused.scale});
        add(lora_a_of(tensor, fused.lora_rank), {fused.a});
        add(lora_b_of(tensor, fused.lora_rank), fused.b);
        std::vector<tensor::StridedView> magnitudes;
        for (const LoraModule* one : members)
            if (one != nullptr && one->magnitude) magnitudes.push_back(*one->magnitude);
        if (magnitudes.empty()) return {};
        if (magnitudes.size() != members.size())
            return fail(ErrorCode::InvalidArgument,
                        "the adapter applies DoRA to only a part of " + module_of(tensor.name) +
                            ", and PEFT has no magnitudes for the rest; this cannot be converted");
        add(magnitude_of(tensor), magnitudes);
        return {};
    }

    static Result<void> check(const NativeTensor& tensor, const Members& members) {
        for (std::size_t i = 0; i < members.size(); ++i) {
            if (members[i] == nullptr) continue;
            if (members[i]->embedding || members[i]->transposed)
                return fail(
                    ErrorCode::InvalidArgument,
                    "this adapter can only stay in the format peft, because Megatron formats "
                    "cannot store LoRA of an embedding or of a weight stored as [in, out]: " +
                        members[i]->module);
            const Shape want{members[i]->b.info.shape[0], members[i]->a.info.shape[1]};
            if (tensor.sources[i].shape != want)
                return fail(ErrorCode::InvalidArgument,
                            "the adapter's " + members[i]->module + " is of shape " +
                                tensor::to_string(want) + ", the model's " +
                                tensor::to_string(tensor.sources[i].shape));
        }
        return {};
    }

    const formats::Adapter& adapter_;
    const Source& base_;
    NativeAdapter result_;
    // modules that are not converted yet, by their names
    std::map<std::string, const LoraModule*> modules_;
    std::map<std::string, const tensor::StridedView*> whole_;
};

}  // namespace

Result<Source> open_base(const fs::path& base_directory, const fs::path& config,
                         const fs::path& adapters, const families::Families& families) {
    Source base;
    base.directory = adapters;
    std::vector<fs::path> places{adapters};
    const auto adapter = formats::read_adapter_config(adapters);
    if (adapter) {
        const auto name = adapter->find("base_model_name_or_path");
        if (name != adapter->end() && name->is_string())
            places.emplace_back(name->get<std::string>());
    }
    const fs::path& given = base_directory.empty() ? config : base_directory;
    ROLL_TRY_VOID(find_config(base, families, places, given));
    // The adapter of a reward model has a score layer (score.weight), which its base model may
    // lack.
    const bool scores = adapter && adapter->value("task_type", Json()) == "SEQ_CLS";
    if (scores && !families::has_score(base.config.native))
        families::set_scores(base.config.native, 1);
    ROLL_TRY_VOID(use_tensors(base, false));
    return base;
}

Result<formats::Adapter> open_adapter(const AdapterPlace& place, const Source& base) {
    ROLL_TRY_VOID(check_matrices(place));
    if (place.native) return read_native_adapter(place.directory, base);
    ROLL_TRY(Adapter adapter, formats::read_adapter(place.directory));
    if (!base.native.empty()) ROLL_TRY_VOID(split_experts(adapter, base));
    return adapter;
}

Result<NativeAdapter> to_native(const formats::Adapter& adapter, const Source& base) {
    return Converter(adapter, base).run();
}

}  // namespace roll::convert
