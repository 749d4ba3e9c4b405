#include "worker/convert/read/job_state.hpp"

#include <algorithm>
#include <set>

#include "common/damage.hpp"
#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/read/state_info.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

using checkpoint::StoredBox;
using checkpoint::StoredParameter;

tl::unexpected<Error> no_average(const fs::path& directory) {
    return fail(ErrorCode::InvalidArgument,
                directory.string() +
                    " has no average of the weights; convert the weights themselves, or train "
                    "with train.ema");
}

tl::unexpected<Error> no_state(const Source& source) {
    if (source.state == kAverageState) return no_average(source.directory);
    return fail(ErrorCode::InvalidArgument,
                source.directory.string() + " has no optimizer state " + source.state);
}

// The files of the optimizer's state. A file is mapped when it is first needed.
class StateFiles {
  public:
    explicit StateFiles(Source& source) : source_(source) {}

    Result<const tensor::SafetensorsFile*> file(const std::string& name) {
        auto found = files_.find(name);
        if (found == files_.end()) {
            auto opened = tensor::SafetensorsFile::open(source_.directory /
                                                        checkpoint::kOptimizerFolder / name);
            if (!opened) return fail(opened.error().code, opened.error().message, kCopyAgain);
            found =
                files_.emplace(name, std::make_shared<tensor::SafetensorsFile>(*std::move(opened)))
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
                "the saved optimizer state must contain every element of " + name +
                    " exactly once, but does not; convert an earlier checkpoint");
}

// Adds the stored blocks of a weight's state to `states`.
Result<void> add_blocks(StateFiles& files, const StoredParameter& stored, const Stored& weight,
                        const std::string& name, std::vector<SourceTensor>& states) {
    std::int64_t missing = tensor::volume(stored.shape);
    for (const StoredBox& box : stored.boxes) {
        ROLL_TRY(const tensor::SafetensorsFile* const file, files.file(box.file));
        const tensor::TensorView* const found = file->find(name);
        bool fits = found != nullptr && found->info.shape.size() == box.size.size();
        for (std::size_t i = 0; fits && i < box.size.size(); ++i)
            fits = box.local[i] <= found->info.shape[i] - box.size[i];
        if (!fits) return lacks_elements(name);
        SourceTensor block{cut(weight, box.begin, box.size), tensor::strided(*found)};
        block.stored.file = fs::path(checkpoint::kOptimizerFolder) / box.file;
        std::int64_t first = 0;
        for (std::size_t i = 0; i < box.size.size(); ++i)
            first += box.local[i] * block.view.strides[i];
        block.view.first += first * (tensor::bits_of(found->info.dtype) / 8);
        block.view.info.shape = box.size;
        states.push_back(std::move(block));
        missing -= tensor::volume(box.size);
    }
    return missing == 0 ? Result<void>() : lacks_elements(name);
}

}  // namespace

Result<void> read_job_state(Source& source) {
    if (!path_exists(source.directory / checkpoint::kOptimizerIndexFile)) return no_state(source);
    if (source.state == kMainWeights) return {};
    ROLL_TRY(const checkpoint::OptimizerIndex index,
             checkpoint::read_optimizer_index(source.directory));
    StateFiles files(source);
    std::vector<SourceTensor> states;
    std::set<int> replaced;
    for (const families::NativeTensor& native : source.native) {
        const auto stored = index.parameters.find(native.name);
        if (stored == index.parameters.end() || stored->second.boxes.empty()) continue;
        const std::string name = native.name + "." + source.state;
        ROLL_TRY(const tensor::SafetensorsFile* const file,
                 files.file(stored->second.boxes.front().file));
        if (file->find(name) == nullptr) continue;
        ROLL_TRY(const Stored weight, whole_native(native, source.model));
        if (weight.shape != stored->second.shape) return lacks_elements(name);
        ROLL_TRY_VOID(add_blocks(files, stored->second, weight, name, states));
        for (const Piece& piece : weight.pieces) replaced.insert(piece.hf);
    }
    if (states.empty()) return no_state(source);
    const bool keeps = source.state == kAverageState;
    for (SourceTensor& one : source.tensors)
        std::erase_if(one.stored.pieces,
                      [&](const Piece& piece) { return !keeps || replaced.contains(piece.hf); });
    std::ranges::move(states, std::back_inserter(source.tensors));
    if (keeps || !allows_unexpected(source.matching.strictness)) return {};
    const auto count = static_cast<int>(source.model.tensors.size());
    for (int hf = 0; hf < count; ++hf)
        if (!replaced.contains(hf)) source.matching.absent.insert(hf);
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
