#include "worker/train/save/moments.hpp"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/checkpoint/state.hpp"
#include "worker/convert/plan/rows.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/continue_optimizer.hpp"
#include "worker/train/save/dist_part.hpp"
#include "worker/train/save/part_plan.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

using checkpoint::OptimizerIndex;
using checkpoint::Sizes;
using checkpoint::StoredBox;
using checkpoint::StoredParameter;

tensor::DType stored_type(at::ScalarType type) {
    if (type == at::kByte) return tensor::DType::U8;
    if (type == at::kBFloat16) return tensor::DType::BF16;
    return type == at::kDouble ? tensor::DType::F64 : tensor::DType::F32;
}

// Returns an index for roll/optimizer.safetensors, the only file for optimizer state in earlier
// versions.
OptimizerIndex index_of(const tensor::SafetensorsFile& file, const std::string& name) {
    OptimizerIndex index;
    const auto updates = file.metadata().find("updates");
    if (updates == file.metadata().end())
        throw RankFailure(2,
                          "the checkpoint's roll/optimizer.safetensors does not have the number of "
                          "updates; restore this file from a copy of the checkpoint");
    index.updates = std::stoll(updates->second);
    for (const tensor::TensorView& view : file.tensors()) {
        if (!view.info.name.ends_with(kAverage)) continue;
        const auto length = view.info.name.size() - kAverage.size();
        const Sizes start(view.info.shape.size());
        index.parameters[view.info.name.substr(0, length)] = {
            view.info.shape, {{name, start, view.info.shape, start}}};
    }
    return index;
}

// The files with a checkpoint's optimizer state. Each file is opened when it is first
// read.
class Moments {
  public:
    explicit Moments(const fs::path& checkpoint) {
        if (path_exists(checkpoint / checkpoint::kOptimizerIndexFile)) {
            folder_ = checkpoint / checkpoint::kOptimizerFolder;
            index = need(checkpoint::read_optimizer_index(checkpoint));
            return;
        }
        const fs::path only = checkpoint / checkpoint::kOptimizerFile;
        folder_ = only.parent_path();
        index = index_of(file(only.filename()), only.filename());
    }

    const tensor::SafetensorsFile& file(const std::string& name) {
        auto found = files_.find(name);
        if (found == files_.end())
            found = files_.emplace(name, need(tensor::SafetensorsFile::open(folder_ / name))).first;
        return found->second;
    }

    OptimizerIndex index;

  private:
    fs::path folder_;
    std::map<std::string, tensor::SafetensorsFile> files_;
};

// The elements that two blocks (StoredBox) of a whole parameter have in common.
struct Overlap {
    Sizes begin, size;
    std::int64_t count = 1;  // number of elements; 0 if the blocks do not overlap
};

Overlap overlap_of(const StoredBox& a, const StoredBox& b) {
    Overlap both;
    for (std::size_t i = 0; i < a.begin.size(); ++i) {
        both.begin.push_back(std::max(a.begin[i], b.begin[i]));
        const std::int64_t end = std::min(a.begin[i] + a.size[i], b.begin[i] + b.size[i]);
        both.size.push_back(std::max<std::int64_t>(end - both.begin[i], 0));
        both.count *= both.size[i];
    }
    return both;
}

// Returns a view of the elements of `overlap` in `tensor`, which holds the block `box`.
at::Tensor elements(at::Tensor tensor, const StoredBox& box, const Overlap& overlap) {
    for (std::size_t i = 0; i < box.begin.size(); ++i)
        tensor = tensor.narrow(static_cast<std::int64_t>(i),
                               box.local[i] + overlap.begin[i] - box.begin[i], overlap.size[i]);
    return tensor;
}

// Returns the stored tensor of an optimizer state. Throws RankFailure if the tensor does not hold
// the block `box`.
at::Tensor stored_tensor(Moments& moments, const StoredBox& box, const std::string& name,
                         at::ScalarType type) {
    const tensor::TensorView* view = moments.file(box.file).find(name);
    bool fits = view != nullptr && view->info.dtype == stored_type(type) &&
                view->info.shape.size() == box.size.size();
    for (std::size_t i = 0; fits && i < box.size.size(); ++i)
        fits = box.local[i] <= view->info.shape[i] - box.size[i];
    if (!fits)
        throw RankFailure(2, box.file + " of the checkpoint's optimizer state has no " + name +
                                 " with the shape and precision that the job needs; use the "
                                 "precision of the job that wrote the checkpoint, or restore this "
                                 "file from a copy of the checkpoint");
    return at::from_blob(const_cast<std::byte*>(view->bytes.data()), view->info.shape,
                         at::TensorOptions(type));
}

// Reads one kind of state for this rank's own rows of a parameter.
void read_moment(Moments& moments, const StoredParameter& stored, const ParameterSpec& spec,
                 const std::string& name, const layout::Rows& own, const at::Tensor& into) {
    if (stored.shape != whole_sizes(spec))
        throw RankFailure(2, "the checkpoint's optimizer state has " + name + " of shape " +
                                 tensor::to_string(stored.shape) + "; the job's model has " +
                                 tensor::to_string(whole_sizes(spec)));
    const at::Tensor host = at::zeros(into.sizes(), into.options().device(at::kCPU));
    std::int64_t missing = 0;
    for (const StoredBox& wanted : boxes_of(spec, own, "")) {
        missing += c10::multiply_integers(wanted.size);
        for (const StoredBox& box : stored.boxes) {
            const Overlap overlap = overlap_of(box, wanted);
            if (overlap.count == 0) continue;
            const at::Tensor from = stored_tensor(moments, box, name, into.scalar_type());
            elements(host, wanted, overlap).copy_(elements(from, box, overlap));
            missing -= overlap.count;
            count_read(overlap.count * static_cast<std::int64_t>(from.element_size()));
            convert::release_pages(
                {static_cast<const std::byte*>(from.const_data_ptr()), from.nbytes()});
        }
    }
    if (missing != 0)
        throw RankFailure(2, "the checkpoint's optimizer state must have every element of " + name +
                                 " exactly once, but some are missing or repeated; restore its "
                                 "files from a copy of the checkpoint");
    copy_state(into, host);
}

// Returns true if the checkpoint has the average of a parameter's weights.
bool has_average(Moments& moments, const StoredParameter& stored, const std::string& name) {
    return !stored.boxes.empty() && moments.file(stored.boxes.front().file).find(name) != nullptr;
}

// Returns the stored form of a state. In the index, a state that is not divided among ranks
// (StateForm::whole) is a separate entry. Returns null if the checkpoint lacks the state, because
// the parameter was frozen in the checkpoint's job, or because that job kept no average.
const StoredParameter* stored_of(Moments& moments, const std::string& name, const StateForm& form) {
    const auto& all = moments.index.parameters;
    const std::string state_name = name + std::string(form.ending);
    const auto found = all.find(form.whole.empty() ? name : state_name);
    if (found == all.end()) return nullptr;
    // If the checkpoint lacks the average, the average begins with the restored weights.
    if (form.ending == kEma && !has_average(moments, found->second, state_name)) return nullptr;
    return &found->second;
}

// Throws RankFailure if the job's optimizer and the checkpoint's optimizer have different kinds of
// state. Adam and AdamW have the same state, so either can continue from the other.
void check_kind(const OptimizerIndex& index, spec::OptimizerKind kind, const fs::path& checkpoint) {
    const auto of_adam = [](std::string_view name) { return name == "adam" || name == "adamw"; };
    const std::string_view own = spec::name_of(kind);
    if (index.optimizer == own || (of_adam(index.optimizer) && of_adam(own))) return;
    throw RankFailure(2, "train.optimizer.kind: " + std::string(own) + " cannot continue " +
                             checkpoint.string() + ", whose optimizer is " + index.optimizer +
                             "; use kind " + index.optimizer +
                             ", or start a new job whose model.from is the checkpoint");
}

bool has_states(TrainStep& step) {
    return std::ranges::any_of(
        step.optimizers(), [](Optimizer& optimizer) { return !optimizer.state().kinds.empty(); });
}

}  // namespace

void read_moments(const fs::path& checkpoint, TrainStep& step) {
    Moments moments(checkpoint);
    check_kind(moments.index, step.optimizers().front().kind(), checkpoint);
    if (is_dist(checkpoint)) {
        read_states(checkpoint, step);
        return;
    }
    const auto is_stored = [&](const WholeParameter& parameter) {
        const auto forms = states_of(step.optimizers().front().options(), parameter.spec);
        return !parameter.spec.frozen && std::ranges::any_of(forms, [&](const StateForm& form) {
            return stored_of(moments, parameter.spec.name, form) != nullptr;
        });
    };
    // Require that the checkpoint has the state of at least one parameter of the job. A checkpoint
    // of SGD without momentum is an exception, because it has no state. The job's momentum then
    // begins at 0.
    if (has_states(step) && !moments.index.parameters.empty() &&
        std::ranges::none_of(step.whole(), is_stored))
        throw RankFailure(2,
                          "the checkpoint's optimizer state belongs to another model, because it "
                          "has none of the job's parameters; use a checkpoint of the job's model");
    for (std::size_t chunk = 0; chunk < step.chunks().size(); ++chunk) {
        const Parameters& p = step.chunks()[chunk].parameters();
        Optimizer& optimizer = step.optimizers()[chunk];
        OptimizerState& state = optimizer.state();
        for (std::size_t i = 0; i < p.specs.size(); ++i) {
            if (p.specs[i].frozen) continue;
            for (const StateForm& form : states_of(optimizer.options(), p.specs[i])) {
                const std::string& name = p.specs[i].name;
                const StoredParameter* const stored = stored_of(moments, name, form);
                if (stored == nullptr) continue;
                const std::string state_name = name + std::string(form.ending);
                const at::Tensor into = state.of(form.ending, i);
                if (form.whole.empty())
                    read_moment(moments, *stored, p.specs[i], state_name, p.own[i], into);
                else
                    read_moment(moments, *stored, {.name = name, .sizes = form.whole}, state_name,
                                {0, form.whole[0]}, into);
            }
        }
        state.steps = moments.index.updates;
    }
}

}  // namespace roll::train
