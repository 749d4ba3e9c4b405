#include "worker/convert/read/state_info.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/damage.hpp"
#include "common/files.hpp"
#include "common/tensor/safetensors.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/checkpoint/dist_layout.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

using formats::Pickle;
using formats::PickleId;
using formats::PickleKind;
using formats::TorchFile;

constexpr int kNestingMax = 8;
constexpr std::string_view kDistributed = "optimizer.distributed.";
constexpr std::string_view kByName = "optimizer.state.";
constexpr std::array<const char*, 4> kReadable{kFullyReshardable, kDpReshardable,
                                               "fully_sharded_model_space", ""};

// Returns a number, or the only element of a tensor; nullopt for other values.
std::optional<std::int64_t> integer_at(const TorchFile& file, PickleId id) {
    const formats::PickleNode& node = file.pickle().at(id);
    if (node.kind == PickleKind::Int) return node.integer;
    if (node.kind == PickleKind::Float) return std::llround(node.number);
    const auto view = file.tensor(id);
    if (!view || !*view || tensor::volume((*view)->info.shape) != 1 ||
        (*view)->info.dtype != tensor::DType::F32)
        return std::nullopt;
    float value = 0;
    std::memcpy(&value, (*view)->first, sizeof value);
    return std::llround(value);
}

// Returns the number of updates that an optimizer's state dict records under the key "common_step"
// or, if this key is absent, "step" (in the first parameter group). Searches inner dicts and lists,
// too.
std::optional<std::int64_t> updates_in(const TorchFile& file, PickleId id, int depth = 0) {
    const Pickle& pickle = file.pickle();
    if (depth > kNestingMax) return std::nullopt;
    std::vector<PickleId> inner;
    if (const auto* entries = pickle.entries_of(id); entries != nullptr) {
        for (const char* key : {"common_step", "step"})
            if (const PickleId* step = pickle.find(id, key); step != nullptr)
                if (const auto number = integer_at(file, *step)) return number;
        for (std::size_t i = 1; i < entries->size(); i += 2) inner.push_back((*entries)[i]);
    } else if (pickle.is(id, PickleKind::List)) {
        inner = pickle.at(id).items;
    }
    for (const PickleId one : inner)
        if (const auto number = updates_in(file, one, depth + 1)) return number;
    return std::nullopt;
}

// Returns the text at a key of a dict or of a dict inside it; empty if there is none.
std::string text_in(const Pickle& pickle, PickleId id, const char* key, int depth = 0) {
    if (const PickleId* found = pickle.find(id, key); found != nullptr)
        if (pickle.is(*found, PickleKind::Text)) return pickle.at(*found).text;
    const auto* entries = pickle.entries_of(id);
    const bool is_list = pickle.is(id, PickleKind::List);
    std::string text;
    if (depth > kNestingMax || (entries == nullptr && !is_list)) return text;
    const std::vector<PickleId>& inner = is_list ? pickle.at(id).items : *entries;
    for (std::size_t i = 0; i < inner.size() && text.empty(); ++i)
        text = text_in(pickle, inner[i], key, depth + 1);
    return text;
}

bool is_optimizer_object(const std::string& name) {
    return name.starts_with("common_state/") || name.find(kDistributed) != std::string::npos;
}

// Reads the kind of the state and the number of updates from common.pt, or from the objects in
// which newer versions of Megatron store them.
Result<void> read_values(const fs::path& directory, const formats::DcpMetadata& metadata,
                         std::string& kind, std::optional<std::int64_t>& updates) {
    const auto take = [&](const TorchFile& file) {
        const PickleId root = file.pickle().root();
        if (kind.empty()) kind = text_in(file.pickle(), root, "param_state_sharding_type");
        // Search the dict "optimizer" if there is one, because other values of a run, such as a
        // scheduler's, may also be named "step".
        const PickleId* const own = file.pickle().find(root, "optimizer");
        if (!updates) updates = updates_in(file, own == nullptr ? root : *own);
    };
    if (is_file(directory / "common.pt")) {
        ROLL_TRY(const TorchFile file, TorchFile::open(directory / "common.pt"));
        take(file);
    }
    for (const formats::DcpObject& object : metadata.objects) {
        if (updates && !kind.empty()) break;
        if (!is_optimizer_object(object.name)) continue;
        const fs::path path = directory / object.extent.file;
        ROLL_TRY(const MappedFile file, MappedFile::open(path));
        const auto size = static_cast<std::int64_t>(file.bytes().size());
        if (object.extent.begin > size || object.extent.size > size - object.extent.begin)
            return fail(ErrorCode::Corrupt, path.string() + " ends before " + object.name);
        ROLL_TRY(const TorchFile one,
                 TorchFile::parse(
                     path, file.bytes().subspan(static_cast<std::size_t>(object.extent.begin),
                                                static_cast<std::size_t>(object.extent.size))));
        take(one);
    }
    return {};
}

// Returns the name of the state in a checkpoint's key; empty if the key is not the key of a state.
std::string state_in(const std::string& key) {
    const std::size_t last = key.rfind('.');
    if (key.find(kDistributed) != std::string::npos && key.find(".bucket_idx_") < last)
        return key.substr(last + 1);
    if (!key.starts_with(kByName)) return {};
    return key.substr(kByName.size(), key.find('.', kByName.size()) - kByName.size());
}

Result<StateInfo> of_distributed(const fs::path& directory) {
    ROLL_TRY(const formats::DcpMetadata metadata, formats::read_dcp_metadata(directory));
    StateInfo info{.directory = directory};
    for (const formats::DcpTensor& tensor : metadata.tensors)
        if (const std::string state = state_in(tensor.info.name); !state.empty())
            info.states.insert(canonical_state(state));
    std::string kind;
    std::optional<std::int64_t> updates;
    ROLL_TRY_VOID(read_values(directory, metadata, kind, updates));
    if (std::ranges::find(kReadable, kind) == kReadable.end())
        return fail(ErrorCode::InvalidArgument,
                    directory.string() + " has optimizer state of kind " + kind +
                        ", which Roll cannot read; allowed: " + kFullyReshardable + " and " +
                        kDpReshardable,
                    "load the checkpoint in Megatron and save it with "
                    "dist_ckpt_optim_fully_reshardable");
    if (info.states.empty())
        return fail(ErrorCode::InvalidArgument, directory.string() + " has no optimizer state");
    if (!updates)
        return fail(
            ErrorCode::InvalidArgument,
            directory.string() +
                " has optimizer state that does not say how many steps it has made (key step)");
    info.updates = *updates;
    return info;
}

// Returns the path of the first file that stores one rank's optimizer state beside the weights:
// optimizer.pt (ROLL) or distrib_optim.pt (Megatron). Returns nullopt if there is none.
std::optional<fs::path> file_of_rank(const fs::path& root) {
    const auto iteration = formats::mca_iteration_directory(root);
    if (!iteration) return std::nullopt;
    std::error_code error;
    for (const auto& rank : fs::directory_iterator(*iteration, error))
        for (const char* name : {"optimizer.pt", "distrib_optim.pt"})
            if (is_file(rank.path() / name)) return rank.path() / name;
    return std::nullopt;
}

// Returns the states in a checkpoint of a training job of Roll.
Result<StateInfo> of_job(const fs::path& root) {
    ROLL_TRY(const checkpoint::OptimizerIndex index, checkpoint::read_optimizer_index(root));
    StateInfo info{.states = {kMainWeights},
                   .updates = index.updates,
                   .directory = root / checkpoint::kOptimizerFolder};
    for (const auto& [name, parameter] : index.parameters) {
        if (parameter.boxes.empty()) continue;
        const auto file =
            tensor::SafetensorsFile::open(info.directory / parameter.boxes.front().file);
        if (!file) return fail(file.error().code, file.error().message, kCopyAgain);
        for (const tensor::TensorView& view : file->tensors())
            if (view.info.name.starts_with(name + "."))
                info.states.insert(view.info.name.substr(name.size() + 1));
        // One parameter suffices, because all parameters that Roll converts have the same states.
        break;
    }
    return info;
}

}  // namespace

std::string canonical_state(const std::string& state) {
    return state == "param" ? kMainWeights : state;
}

std::optional<fs::path> optimizer_directory(const fs::path& root) {
    std::vector<fs::path> places{root};
    if (const auto iteration = formats::mca_iteration_directory(root)) {
        places.insert(places.begin(), *iteration / kOptimizerPart);
        places.push_back(*iteration);
    }
    for (const fs::path& place : places)
        if (is_file(place / formats::kDcpMetadataFile)) return place;
    return std::nullopt;
}

Result<StateInfo> read_state_info(const fs::path& root) {
    // A checkpoint of a Roll job in the format torch_dist has both a distributed optimizer's
    // directory and kOptimizerIndexFile, so look for the directory first.
    if (const auto directory = optimizer_directory(root)) return of_distributed(*directory);
    if (is_file(root / checkpoint::kOptimizerIndexFile)) return of_job(root);
    if (const auto file = file_of_rank(root))
        return fail(ErrorCode::InvalidArgument,
                    file->string() + " has optimizer state in one file for each rank, which Roll " +
                        "cannot read; allowed: the state of a distributed optimizer of kind " +
                        kFullyReshardable + " or " + kDpReshardable,
                    "save the checkpoint with use_distributed_optimizer in the format torch_dist");
    return fail(ErrorCode::InvalidArgument,
                root.string() + " has no optimizer state of Roll or of a distributed optimizer");
}

}  // namespace roll::convert
