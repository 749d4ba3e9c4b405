#include "worker/convert/read/average.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

using checkpoint::StoredBox;
using checkpoint::StoredParameter;

constexpr const char* kEnding = ".ema";

tl::unexpected<Error> no_average(const fs::path& directory) {
    return fail(ErrorCode::InvalidArgument,
                directory.string() +
                    " has no average of the weights; convert the weights themselves, or train "
                    "with train.ema");
}

// The files of the optimizer's state. A file is mapped when it is first needed.
class StateFiles {
  public:
    explicit StateFiles(Source& source) : source_(source) {}

    Result<const tensor::SafetensorsFile*> file(const std::string& name) {
        auto found = files_.find(name);
        if (found == files_.end()) {
            ROLL_TRY(auto opened, tensor::SafetensorsFile::open(
                                      source_.directory / checkpoint::kOptimizerFolder / name));
            found =
                files_.emplace(name, std::make_shared<tensor::SafetensorsFile>(std::move(opened)))
                    .first;
            source_.storage.files.push_back(found->second);
        }
        return found->second.get();
    }

  private:
    Source& source_;
    std::map<std::string, std::shared_ptr<tensor::SafetensorsFile>> files_;
};

tl::unexpected<Error> lacks_elements(const std::string& name) {
    return fail(ErrorCode::Corrupt,
                "the optimizer's state must have every element of " + name +
                    " exactly once, but does not; convert an earlier checkpoint");
}

// Copies the block of a stored tensor to its place in the whole tensor, row by row.
void copy_box(const StoredBox& box, const tensor::TensorView& from, const Shape& shape,
              std::span<std::byte> whole) {
    const std::int64_t element = tensor::bits_of(from.info.dtype) / 8;
    const auto to_strides = tensor::row_major(shape), strides = tensor::row_major(from.info.shape);
    const std::size_t last = shape.size() - 1;
    const std::int64_t rows = tensor::volume(box.size) / box.size[last];
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t rest = row, to = box.begin[last], at = box.local[last];
        for (std::size_t dim = last; dim-- > 0; rest /= box.size[dim]) {
            const std::int64_t i = rest % box.size[dim];
            to += (box.begin[dim] + i) * to_strides[dim];
            at += (box.local[dim] + i) * strides[dim];
        }
        std::memcpy(whole.data() + to * element, from.bytes.data() + at * element,
                    static_cast<std::size_t>(box.size[last] * element));
    }
}

// Returns the whole average of a weight. If one stored tensor is the whole, this is a view of its
// mapped file; `in_memory` is then false.
Result<tensor::StridedView> whole_average(StateFiles& files, const StoredParameter& stored,
                                          const std::string& name, Source& source,
                                          bool& in_memory) {
    std::shared_ptr<std::vector<std::byte>> whole;
    tensor::TensorInfo info;
    std::int64_t missing = tensor::volume(stored.shape);
    for (const StoredBox& box : stored.boxes) {
        ROLL_TRY(const tensor::SafetensorsFile* const file, files.file(box.file));
        const tensor::TensorView* const view = file->find(name);
        bool fits = view != nullptr && view->info.shape.size() == box.size.size();
        for (std::size_t i = 0; fits && i < box.size.size(); ++i)
            fits = box.local[i] <= view->info.shape[i] - box.size[i];
        if (!fits || (whole && view->info.dtype != info.dtype)) return lacks_elements(name);
        in_memory = view->info.shape != stored.shape;
        if (!in_memory) return tensor::strided(*view);
        info = {name, view->info.dtype, stored.shape};
        if (!whole) {
            ROLL_TRY(const std::int64_t bytes, tensor::byte_count(info.dtype, info.shape));
            whole = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
            source.storage.files.push_back(whole);
        }
        copy_box(box, *view, stored.shape, *whole);
        missing -= tensor::volume(box.size);
    }
    if (missing != 0) return lacks_elements(name);
    return tensor::strided({info, *whole});
}

}  // namespace

Result<void> read_average(Source& source) {
    const auto text = read_file(source.directory / checkpoint::kOptimizerIndexFile);
    if (!text) return no_average(source.directory);
    ROLL_TRY(const checkpoint::OptimizerIndex index, checkpoint::decode_optimizer_index(*text));
    StateFiles files(source);
    std::vector<SourceTensor> averages;
    std::set<int> averaged;
    for (const families::NativeTensor& native : source.native) {
        const auto stored = index.parameters.find(native.name);
        if (stored == index.parameters.end() || stored->second.boxes.empty()) continue;
        const std::string name = native.name + kEnding;
        ROLL_TRY(const tensor::SafetensorsFile* const file,
                 files.file(stored->second.boxes.front().file));
        if (file->find(name) == nullptr) continue;
        SourceTensor average;
        ROLL_TRY(average.stored, whole_native(native, source.model));
        if (average.stored.shape != stored->second.shape) return lacks_elements(name);
        average.stored.file = checkpoint::kOptimizerFolder;
        ROLL_TRY(average.view,
                 whole_average(files, stored->second, name, source, average.in_memory));
        for (const Piece& piece : average.stored.pieces) averaged.insert(piece.hf);
        averages.push_back(std::move(average));
    }
    if (averages.empty()) return no_average(source.directory);
    for (SourceTensor& one : source.tensors)
        std::erase_if(one.stored.pieces,
                      [&](const Piece& piece) { return averaged.contains(piece.hf); });
    std::ranges::move(averages, std::back_inserter(source.tensors));
    return {};
}

Result<fs::path> averaged_adapter(const fs::path& directory, const std::string& state) {
    if (state != kAverageState)
        return fail(ErrorCode::InvalidArgument,
                    "--state is " + state + "; allowed for a LoRA adapter: ema");
    const fs::path adapter = directory / checkpoint::kAveragedAdapter;
    if (!path_exists(adapter / "adapter_config.json")) return no_average(directory);
    return adapter;
}

}  // namespace roll::convert
