#include "worker/convert/adapter/native.hpp"

#include <algorithm>
#include <cstring>

#include "worker/convert/adapter/experts.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/convert/read/dist.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using families::NativeTensor;
using families::Operation;
using families::Split;
using formats::TorchFile;

constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";
constexpr const char* kMagnitude = ".lora_magnitude_vector";

bool can_have_lora(const NativeTensor& tensor) {
    return tensor.name.ends_with(".weight") && tensor.shape.size() == 2;
}

// Buffers of gathered bytes. The adapter keeps the buffers alive, because its views point into
// them.
using Buffers = std::vector<std::vector<std::byte>>;

class NativeReader {
  public:
    NativeReader(fs::path directory, const Source& base)
        : directory_(std::move(directory)),
          base_(base),
          buffers_(std::make_shared<Buffers>()) {}

    // Opens the adapter and returns its tensors under their native names. Does not convert them.
    Result<Source> open() && {
        ROLL_TRY_VOID(open_tensors());
        return std::move(source_);
    }

    Result<formats::Adapter> run() && {
        ROLL_TRY_VOID(open_tensors());
        ROLL_TRY_VOID(keep_all());
        for (const NativeTensor& tensor : base_.native) {
            if (const auto found = ranks_.find(tensor.name); found != ranks_.end())
                ROLL_TRY_VOID(add_modules(tensor, found->second));
            if (whole_.contains(tensor.name))
                for (const families::HfTensor& source : tensor.sources)
                    adapter_.whole.push_back(views_.at(source.name));
        }
        adapter_.file.keep = buffers_;
        return std::move(adapter_);
    }

  private:
    Result<void> open_tensors() {
        ROLL_TRY(adapter_.config, formats::read_adapter_config(directory_));
        if (const auto kept = adapter_.config.find(kParametersKept);
            kept != adapter_.config.end()) {
            adapter_.config[kParameters] = *kept;
            adapter_.config.erase(kParametersKept);
        }
        std::error_code error;
        const bool own = fs::is_regular_file(directory_ / "mca_config.json", error);
        const fs::path model = own ? directory_ : directory_.parent_path();
        ROLL_TRY(config_, formats::read_mca_config(model));
        if (const auto distributed = dist_directory(directory_)) {
            ROLL_TRY(const formats::DcpMetadata metadata, formats::read_dcp_metadata(*distributed));
            look(metadata);
            expect();
            return read_dist_tensors(source_, *distributed, metadata);
        }
        ROLL_TRY(iteration_, formats::mca_iteration_directory(directory_));
        ROLL_TRY_VOID(look());
        expect();
        return read();
    }

    Result<std::shared_ptr<const TorchFile>> open_rank(const std::string& label) const {
        const fs::path path =
            iteration_ / fs::path(label).parent_path().filename() / fs::path(label).filename();
        ROLL_TRY(auto file, TorchFile::open(path));
        return std::make_shared<const TorchFile>(std::move(file));
    }

    // Finds the tensors that have LoRA, and their LoRA ranks: lists all LoRA tensors that the model
    // could have, and looks for them in the files.
    Result<void> look() {
        Source all;
        // maps the name of a HuggingFace module in `all` to the name of its native tensor
        std::map<std::string, std::string> tensor_of;
        for (const NativeTensor& tensor : base_.native) {
            tensor_of[tensor.sources[0].name] = tensor.name;
            all.native.push_back(tensor);
            if (!can_have_lora(tensor)) continue;
            for (NativeTensor part : {lora_a_of(tensor, 1), magnitude_of(tensor)}) {
                tensor_of[part.sources[0].name] = tensor.name;
                all.native.push_back(std::move(part));
            }
        }
        all.model = model_of(all.native);
        ROLL_TRY(const auto possible, mca_layout(all.native, all.model, config_));
        // shapes of the found tensors: [file and section][name]
        std::map<std::string, std::map<std::string, Shape>> found;
        for (const auto& [label, sections] : sections_by_file(possible)) {
            ROLL_TRY(const auto file, open_rank(label));
            for (const std::string& section : sections) {
                const auto* node = file->pickle().find(file->pickle().root(), section);
                if (node == nullptr) continue;
                ROLL_TRY(const formats::StateDict dict, file->state_dict(*node));
                for (const tensor::StridedView& view : dict.tensors)
                    found[label + section][formats::core_spelling(view.info.name)] =
                        view.info.shape;
            }
        }
        for (const Stored& stored : possible) {
            const auto& names = found[stored.file + stored.section];
            const auto shape = names.find(stored.name);
            if (shape == names.end() || shape->second.empty()) continue;
            const std::string& hf =
                all.model.tensors[static_cast<std::size_t>(stored.pieces[0].hf)].name;
            const std::string& tensor = tensor_of.at(hf);
            if (stored.name.find(".lora_A.weight") != std::string::npos)
                ranks_[tensor] = shape->second[0];
            else if (hf.ends_with(kMagnitude))
                magnitudes_[tensor] = true;
            else
                whole_[tensor] = true;
        }
        return {};
    }

    // Does the same as look(), but from the metadata of a distributed checkpoint, where a key holds
    // either one layer or all layers.
    void look(const formats::DcpMetadata& metadata) {
        std::map<std::string, const Shape*> shapes;
        for (const formats::DcpTensor& tensor : metadata.tensors)
            shapes[tensor.info.name] = &tensor.info.shape;
        const auto shape_of = [&](const NativeTensor& tensor) -> const Shape* {
            for (const std::string& name : dist_names(tensor))
                if (const auto found = shapes.find(name); found != shapes.end())
                    return found->second;
            return nullptr;
        };
        for (const NativeTensor& tensor : base_.native) {
            if (shape_of(tensor) != nullptr) whole_[tensor.name] = true;
            if (!can_have_lora(tensor)) continue;
            const Shape* const a = shape_of(lora_a_of(tensor, 1));
            if (a != nullptr && a->size() >= 2) ranks_[tensor.name] = (*a)[a->size() - 2];
            if (shape_of(magnitude_of(tensor)) != nullptr) magnitudes_[tensor.name] = true;
        }
    }

    // Lists in source_ the tensors that look() found. The reader then expects exactly these
    // tensors.
    void expect() {
        source_.directory = directory_;
        source_.family = base_.family;
        for (const NativeTensor& tensor : base_.native) {
            if (whole_.contains(tensor.name)) source_.native.push_back(tensor);
            const auto found = ranks_.find(tensor.name);
            if (found == ranks_.end()) continue;
            source_.native.push_back(lora_a_of(tensor, found->second));
            source_.native.push_back(lora_b_of(tensor, found->second));
            if (magnitudes_.contains(tensor.name)) source_.native.push_back(magnitude_of(tensor));
        }
        source_.model = model_of(source_.native);
    }

    Result<void> read() {
        ROLL_TRY(const auto expected, mca_layout(source_.native, source_.model, config_));
        const auto sections = sections_by_file(expected);
        RankReader reader(source_, expected);
        for (const auto& [label, names] : sections) {
            ROLL_TRY(const auto file, open_rank(label));
            ROLL_TRY_VOID(reader.read(file, label, names));
        }
        return reader.finish();
    }

    Result<void> keep_all() {
        ROLL_TRY(const Plan plan, make_plan(source_, hf_layout(source_.model), std::nullopt));
        for (const Comparison& comparison : plan.comparisons)
            ROLL_TRY_VOID(compare(source_, comparison));
        for (const TargetTensor& target : plan.tensors) ROLL_TRY_VOID(keep(target));
        return {};
    }

    Result<void> keep(const TargetTensor& target) {
        std::vector<std::byte> bytes;
        ROLL_TRY_VOID(gather(source_, target, [&](std::span<const std::byte> window) {
            bytes.insert(bytes.end(), window.begin(), window.end());
            return Result<void>();
        }));
        buffers_->push_back(std::move(bytes));
        views_[target.info.name] = {target.info, tensor::row_major(target.info.shape),
                                    buffers_->back().data()};
        return {};
    }

    static bool is_zero(const tensor::StridedView& b, std::int64_t column) {
        const std::int64_t size = tensor::bits_of(b.info.dtype) / 8;
        for (std::int64_t i = 0; i < b.info.shape[0]; ++i)
            for (std::int64_t k = 0; k < size; ++k)
                if (b.first[(i * b.strides[0] + column) * size + k] != std::byte{0}) return false;
        return true;
    }

    // Returns the rows `chosen` of A if `rows` is true, else the columns `chosen` of B.
    tensor::StridedView picked(const tensor::StridedView& from,
                               const std::vector<std::int64_t>& chosen, bool rows) {
        const std::int64_t size = tensor::bits_of(from.info.dtype) / 8;
        tensor::TensorInfo info = from.info;
        info.shape[rows ? 0 : 1] = static_cast<std::int64_t>(chosen.size());
        std::vector<std::byte> bytes(
            static_cast<std::size_t>(info.shape[0] * info.shape[1] * size));
        for (std::int64_t i = 0; i < info.shape[0]; ++i)
            for (std::int64_t j = 0; j < info.shape[1]; ++j) {
                const std::int64_t row = rows ? chosen[static_cast<std::size_t>(i)] : i;
                const std::int64_t column = rows ? j : chosen[static_cast<std::size_t>(j)];
                std::memcpy(bytes.data() + (i * info.shape[1] + j) * size,
                            from.first + (row * from.strides[0] + column) * size,
                            static_cast<std::size_t>(size));
            }
        buffers_->push_back(std::move(bytes));
        return {info, tensor::row_major(info.shape), buffers_->back().data()};
    }

    Result<void> add_modules(const NativeTensor& tensor, std::int64_t lora_rank) {
        const std::string module = module_of(tensor.name);
        const tensor::StridedView a = views_.at(module + kA);
        const double scale =
            formats::lora_scale(adapter_.config, module, static_cast<double>(lora_rank));
        std::vector<std::vector<std::int64_t>> used;
        bool any = false;
        for (const families::HfTensor& source : tensor.sources) {
            const tensor::StridedView& b = views_.at(module_of(source.name) + kB);
            used.emplace_back();
            for (std::int64_t column = 0; column < lora_rank; ++column)
                if (!is_zero(b, column)) used.back().push_back(column);
            any |= !used.back().empty();
        }
        for (std::size_t i = 0; i < tensor.sources.size(); ++i) {
            const std::string name = module_of(tensor.sources[i].name);
            if (any && used[i].empty()) continue;  // skip the module, because it has no LoRA
            formats::LoraModule one{name, a, views_.at(name + kB), std::nullopt, scale};
            const bool fewer = any && static_cast<std::int64_t>(used[i].size()) < lora_rank;
            if (fewer && tensor.sources.size() > 1) {
                one.a = picked(a, used[i], true);
                one.b = picked(one.b, used[i], false);
            }
            if (magnitudes_.contains(tensor.name)) one.magnitude = views_.at(name + kMagnitude);
            adapter_.modules.push_back(std::move(one));
        }
        return {};
    }

    fs::path directory_;
    const Source& base_;
    formats::McaConfig config_;
    fs::path iteration_;
    std::map<std::string, std::int64_t> ranks_;  // LoRA ranks, by the native tensors' names
    std::map<std::string, bool> magnitudes_;
    std::map<std::string, bool> whole_;
    Source source_;
    // the adapter's tensors, by HuggingFace name
    std::map<std::string, tensor::StridedView> views_;
    std::shared_ptr<Buffers> buffers_;
    formats::Adapter adapter_;
};

}  // namespace

NativeTensor lora_a_of(const NativeTensor& tensor, std::int64_t lora_rank) {
    NativeTensor a = tensor;
    a.name = module_of(tensor.name) + kA;
    a.shape = {lora_rank, tensor.shape[1]};
    a.sources = {{a.name, a.shape}};
    a.operation = Operation::Copy;
    a.add = 0;
    a.split = tensor.split == Split::Row ? Split::Row : Split::None;
    return a;
}

NativeTensor lora_b_of(const NativeTensor& tensor, std::int64_t lora_rank) {
    NativeTensor b = tensor;
    b.name = module_of(tensor.name) + kB;
    b.shape = {tensor.shape[0], lora_rank};
    b.add = 0;
    for (families::HfTensor& source : b.sources)
        source = {module_of(source.name) + kB, {source.shape[0], lora_rank}};
    b.split = tensor.split == Split::Column ? Split::Column : Split::None;
    return b;
}

NativeTensor magnitude_of(const NativeTensor& tensor) {
    NativeTensor magnitude = tensor;
    magnitude.name = module_of(tensor.name) + kMagnitude;
    magnitude.shape = {tensor.shape[0]};
    magnitude.add = 0;
    for (families::HfTensor& source : magnitude.sources)
        source = {module_of(source.name) + kMagnitude, {source.shape[0]}};
    magnitude.split = tensor.split == Split::Column ? Split::Column : Split::None;
    return magnitude;
}

Result<formats::Adapter> read_native_adapter(const fs::path& directory, const Source& base) {
    return NativeReader(directory, base).run();
}

Result<Source> open_native_tensors(const fs::path& directory, const Source& base) {
    return NativeReader(directory, base).open();
}

}  // namespace roll::convert
