#include "worker/convert/read/deepspeed.hpp"

#include <algorithm>
#include <regex>

#include "common/check.hpp"
#include "common/counted.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/flat_ranges.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/formats/torch_file.hpp"
#include "worker/formats/torch_values.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using formats::PickleId;
using formats::TorchFile;
using TorchPointer = std::shared_ptr<const TorchFile>;

// directory of the parameters in a universal checkpoint
constexpr const char* kUniversal = "zero";

// The file of a rank. The file's name has the numbers of the data-parallel rank and of the
// model-parallel rank, such as "zero_pp_rank_3_mp_rank_00_optim_states.pt".
struct RankFile {
    int dp = 0;
    int mp = 0;
    fs::path path;
};

std::vector<RankFile> files_of(const fs::path& directory, const std::string& ending) {
    const std::regex pattern(
        "(?:(?:bf16_|fp16_)?zero_pp_rank_([0-9]{1,5})_)?mp_rank_([0-9]{1,4})_" + ending + "\\.pt");
    std::vector<RankFile> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        std::smatch match;
        const std::string name = entry.path().filename().string();
        if (std::regex_match(name, match, pattern))
            files.push_back(
                {match[1].matched ? std::stoi(match[1]) : 0, std::stoi(match[2]), entry.path()});
    }
    std::sort(files.begin(), files.end(), [](const RankFile& a, const RankFile& b) {
        return std::pair(a.mp, a.dp) < std::pair(b.mp, b.dp);
    });
    return files;
}

// Returns the value of an integer or of an enumeration member. An enumeration member is pickled as
// a call with its value as the argument.
std::optional<std::int64_t> integer_of(const formats::Pickle& pickle, PickleId id) {
    if (pickle.is(id, formats::PickleKind::Call)) {
        const formats::PickleNode& arguments = pickle.at(pickle.at(id).items[1]);
        if (arguments.items.size() != 1) return std::nullopt;
        id = arguments.items[0];
    }
    if (!pickle.is(id, formats::PickleKind::Int)) return std::nullopt;
    return pickle.at(id).integer;
}

class Opener {
  public:
    Opener(Source& source, fs::path directory)
        : source_(source),
          directory_(std::move(directory)) {}

    Result<void> open() {
        std::error_code error;
        if (fs::is_directory(directory_ / kUniversal, error)) return open_universal();
        return open_zero();
    }

  private:
    tl::unexpected<Error> corrupt(const fs::path& path, const std::string& what) const {
        return fail(ErrorCode::Corrupt, path.string() + ": " + what);
    }

    Result<TorchPointer> torch_file(const fs::path& path) {
        ROLL_TRY(auto opened, TorchFile::open(path));
        auto file = std::make_shared<const TorchFile>(std::move(opened));
        source_.storage.files.push_back(file);
        return file;
    }

    // Returns the tensor's number in the model. Returns nullopt if the family drops the tensor. For
    // a tied output layer, returns the embedding's number.
    Result<std::optional<int>> number_of(const fs::path& path, const std::string& key) {
        const std::string name = key.starts_with("module.") ? key.substr(7) : key;
        const auto found = source_.model.number.find(name);
        if (found != source_.model.number.end()) return found->second;
        if (const auto tied = tied_output(source_); tied && tied->name == name)
            return tied->embedding;
        if (is_dropped(*source_.family, name)) {
            source_.matching.dropped.push_back(
                {path.filename(), key, "the family file drops this tensor"});
            return std::nullopt;
        }
        ROLL_TRY_VOID(drop_surplus(source_, path.lexically_relative(source_.directory), key));
        return std::nullopt;
    }

    Result<void> check_shape(const fs::path& path, int number, const Shape& shape) const {
        const families::HfTensor& own = source_.model.tensors[static_cast<std::size_t>(number)];
        if (own.shape == shape) return {};
        return corrupt(path, own.name + " has shape " + tensor::to_string(shape) +
                                 "; the config says " + tensor::to_string(own.shape));
    }

    // Records the place of the elements [begin, begin + count) of tensor `number`: they are in
    // `flat`, from element `at` on.
    void add_run(const fs::path& path, int number, std::int64_t begin, std::int64_t count,
                 const tensor::StridedView& flat, std::int64_t at) {
        const families::HfTensor& own = source_.model.tensors[static_cast<std::size_t>(number)];
        const std::int64_t step = tensor::bits_of(flat.info.dtype) / 8;
        boxes_of_range(own.shape, begin, begin + count,
                       [&](const Shape& from, const Shape& size, std::int64_t first) {
                           Stored stored;
                           stored.file = path.filename();
                           stored.name = own.name;
                           stored.shape = size;
                           stored.pieces = {{number, from, size, Shape(size.size(), 0)}};
                           tensor::StridedView view{{own.name, flat.info.dtype, size},
                                                    tensor::row_major(size),
                                                    flat.first + (at + first) * step};
                           source_.tensors.push_back({std::move(stored), std::move(view)});
                       });
    }

    // Opens a universal checkpoint. For each parameter, zero/NAME/fp32.pt holds {"param": tensor};
    // with ZeRO 3, the file holds only the flattened tensor. The model-state files hold the
    // buffers. With ZeRO 3, the model-state files also hold the frozen parameters.
    Result<void> open_universal() {
        std::error_code error;
        const std::vector<RankFile> models = files_of(directory_, "model_states");
        const std::string first = models.front().path.filename().string();
        stage_ = first.starts_with("zero_pp_rank_") ? 3 : 2;
        std::vector<fs::path> folders;
        for (const auto& entry : fs::directory_iterator(directory_ / kUniversal, error))
            if (fs::is_regular_file(entry.path() / "fp32.pt", error))
                folders.push_back(entry.path());
        std::sort(folders.begin(), folders.end());
        ROLL_TRY(const TorchPointer model, torch_file(models.front().path));
        const formats::Pickle& states = model->pickle();
        const PickleId* const shared = states.find(states.root(), "shared_params");
        for (const fs::path& folder : folders) {
            // If the parameter shares its weight with another parameter, use only the file of the
            // other parameter. The values in this parameter's own file may be one rounding step
            // older.
            const std::string name = folder.filename().string();
            if (shared != nullptr && states.find(*shared, name) != nullptr)
                source_.matching.dropped.push_back(
                    {kUniversal, name, "shared with another parameter"});
            else
                ROLL_TRY_VOID(take_universal(folder));
        }
        // without ZeRO 3, the frozen parameters are in zero/
        if (stage_ == 3) ROLL_TRY_VOID(take_frozen(*model, models));
        ROLL_TRY_VOID(take_buffers(*model, models.front().path));
        return check_nothing_missing(source_);
    }

    Result<void> take_universal(const fs::path& folder) {
        const fs::path path = folder / "fp32.pt";
        ROLL_TRY(const TorchPointer file, torch_file(path));
        const PickleId* node = file->pickle().find(file->pickle().root(), "param");
        ROLL_TRY(auto view, file->tensor(node == nullptr ? file->pickle().root() : *node));
        if (!view)
            return corrupt(path, "is not a file of one parameter; run ds_to_universal.py again");
        const std::string name = folder.filename().string();
        ROLL_TRY(const auto number, number_of(path, name));
        if (!number) return {};
        const Shape& own = source_.model.tensors[static_cast<std::size_t>(*number)].shape;
        const std::int64_t count = tensor::volume(own);
        if (stage_ == 3 && view->info.shape == Shape{count} && view->strides == Shape{1}) {
            view->info.shape = own;
            view->strides = tensor::row_major(own);
        }
        ROLL_TRY_VOID(check_shape(path, *number, view->info.shape));
        Stored stored = whole_tensor(source_.model, *number);
        stored.file = (fs::path(kUniversal) / name / "fp32.pt").string();
        source_.tensors.push_back({std::move(stored), *std::move(view)});
        return {};
    }

    struct Parameter {
        std::string name;
        Shape shape;
    };

    // Returns the parameters of each group, in order, with their shapes. The value of the key `key`
    // is a list of dicts {name: torch.Size}, or one such dict.
    Result<std::vector<std::vector<Parameter>>> shapes_of(const TorchFile& file,
                                                          const fs::path& path, const char* key) {
        const formats::Pickle& pickle = file.pickle();
        std::vector<std::vector<Parameter>> groups;
        const PickleId* node = pickle.find(pickle.root(), key);
        if (node == nullptr || pickle.is(*node, formats::PickleKind::None)) return groups;
        std::vector<PickleId> dicts{*node};
        if (pickle.is(*node, formats::PickleKind::List)) dicts = pickle.at(*node).items;
        for (const PickleId dict : dicts) {
            const std::vector<PickleId>* entries = pickle.entries_of(dict);
            if (entries == nullptr)
                return corrupt(path, std::string(key) + " must be a dict; copy the file again");
            groups.emplace_back();
            for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
                const auto shape = formats::integers_of(pickle, (*entries)[i + 1]);
                if (!pickle.is((*entries)[i], formats::PickleKind::Text) || !shape)
                    return corrupt(
                        path,
                        std::string(key) + " has a parameter without a shape; copy the file again");
                ROLL_TRY_VOID(tensor::element_count(*shape));
                groups.back().push_back({pickle.at((*entries)[i]).text, *shape});
            }
        }
        return groups;
    }

    struct Flat {
        fs::path path;
        std::vector<tensor::StridedView> groups;  // one 1-D tensor per parameter group
    };

    Result<void> open_zero() {
        const std::vector<RankFile> optimizers = files_of(directory_, "optim_states");
        const std::vector<RankFile> models = files_of(directory_, "model_states");
        if (optimizers.empty() || models.empty())
            return fail(ErrorCode::NotFound,
                        directory_.string() + " has no ZeRO optim_states or model_states files");
        if (optimizers.back().mp > 0)
            return fail(ErrorCode::InvalidArgument,
                        directory_.string() +
                            " is split over data-parallel and model-parallel ranks; Roll reads "
                            "only a split over data-parallel ranks",
                        "run DeepSpeed's ds_to_universal.py and convert its output");
        std::vector<Flat> ranks;
        for (const RankFile& one : optimizers) {
            ROLL_TRY(Flat flat, read_flat(one.path));
            ranks.push_back(std::move(flat));
        }
        for (std::size_t i = 0; i < ranks.size(); ++i)
            if (optimizers[i].dp != static_cast<int>(i) || world_ != ranks.size() ||
                ranks[i].groups.size() != ranks[0].groups.size())
                return corrupt(directory_,
                               std::to_string(ranks.size()) +
                                   " optim_states files were found, but " +
                                   counted(world_, "rank") +
                                   " wrote the checkpoint; copy all files of the checkpoint again");
        ROLL_TRY(const TorchPointer model, torch_file(models.front().path));
        ROLL_TRY(const auto shapes, shapes_of(*model, models.front().path, "param_shapes"));
        ROLL_TRY_VOID(stage_ == 3 ? take_stage3(ranks, shapes) : take_stage2(ranks, shapes));
        ROLL_TRY_VOID(take_frozen(*model, models));
        ROLL_TRY_VOID(take_buffers(*model, models.front().path));
        return check_nothing_missing(source_);
    }

    Result<Flat> read_flat(const fs::path& path) {
        ROLL_TRY(const TorchPointer file, torch_file(path));
        const formats::Pickle& pickle = file->pickle();
        const PickleId* state = pickle.find(pickle.root(), "optimizer_state_dict");
        const PickleId* zero = state == nullptr ? nullptr : pickle.find(*state, "zero_stage");
        const PickleId* count = state == nullptr ? nullptr : pickle.find(*state, "partition_count");
        const auto stage = zero == nullptr ? std::nullopt : integer_of(pickle, *zero);
        if (!stage || count == nullptr)
            return corrupt(path, "has no state of a ZeRO optimizer; copy the file again");
        stage_ = *stage;
        if (stage_ < 1 || stage_ > 3)
            return corrupt(path, "zero_stage is " + std::to_string(stage_) + "; allowed: 1 to 3");
        std::int64_t world = pickle.at(*count).integer;
        for (const PickleId one : pickle.at(*count).items)
            world = std::max(world, pickle.at(one).integer);
        world_ = world < 1 ? 0 : static_cast<std::size_t>(world);
        const PickleId* groups = pickle.find(
            *state, stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
        if (groups == nullptr || !pickle.is(*groups, formats::PickleKind::List))
            return corrupt(path, "has no groups of fp32 weights; copy the file again");
        drop_run_state(source_, path.filename(), pickle, *state,
                       {"zero_stage", "partition_count", "fp32_flat", "single_partition"});
        Flat flat{path, {}};
        for (const PickleId group : pickle.at(*groups).items) {
            ROLL_TRY(const auto view, file->tensor(group));
            if (!view || view->info.shape.size() != 1 || view->strides[0] != 1)
                return corrupt(
                    path,
                    "has a group of fp32 weights that is not a flat tensor; copy the file again");
            flat.groups.push_back(*view);
        }
        return flat;
    }

    // Takes the tensors of ZeRO 1 and 2. The concatenation of all ranks' partitions of a group
    // equals the concatenation of the group's parameters.
    Result<void> take_stage2(const std::vector<Flat>& ranks,
                             const std::vector<std::vector<Parameter>>& groups) {
        if (groups.size() != ranks[0].groups.size())
            return corrupt(directory_, "lists parameters for " + counted(groups.size(), "group") +
                                           " of weights but contains weights of " +
                                           counted(ranks[0].groups.size(), "group"));
        for (std::size_t group = 0; group < groups.size(); ++group) {
            std::int64_t at = 0;  // index of the current element in the group, over all ranks
            for (const Parameter& parameter : groups[group]) {
                ROLL_TRY(const auto number, number_of(ranks[0].path, parameter.name));
                if (number) ROLL_TRY_VOID(check_shape(ranks[0].path, *number, parameter.shape));
                const std::int64_t end = at + tensor::volume(parameter.shape);
                std::int64_t begin = 0;  // index of the first element of the rank's partition
                for (const Flat& rank : ranks) {
                    const tensor::StridedView& flat = rank.groups[group];
                    const std::int64_t from = std::max(at, begin);
                    const std::int64_t to = std::min(end, begin + flat.info.shape[0]);
                    if (number && from < to)
                        add_run(rank.path, *number, from - at, to - from, flat, from - begin);
                    begin += flat.info.shape[0];
                }
                if (end > begin)
                    return corrupt(ranks[0].path, parameter.name + " ends outside its group of " +
                                                      std::to_string(begin) + " elements");
                at = end;
            }
        }
        return {};
    }

    // Takes the tensors of ZeRO 3. Each parameter is split over all ranks. The concatenation of a
    // rank's groups has the rank's part of each parameter, in the order of the parameters.
    Result<void> take_stage3(const std::vector<Flat>& ranks,
                             const std::vector<std::vector<Parameter>>& groups) {
        std::int64_t at = 0;  // index of the current element in the rank's concatenated groups
        for (const auto& group : groups)
            for (const Parameter& parameter : group) {
                ROLL_TRY(const auto number, number_of(ranks[0].path, parameter.name));
                if (number) ROLL_TRY_VOID(check_shape(ranks[0].path, *number, parameter.shape));
                const auto world = static_cast<std::int64_t>(ranks.size());
                const std::int64_t count = tensor::volume(parameter.shape);
                const std::int64_t part = (count + world - 1) / world;
                for (std::int64_t rank = 0; rank < world && number; ++rank) {
                    const std::int64_t begin = std::min(count, rank * part);
                    ROLL_TRY_VOID(add_part(ranks[static_cast<std::size_t>(rank)], *number, begin,
                                           std::min(count, begin + part) - begin, at));
                }
                at += part;
            }
        return {};
    }

    // Adds a part of tensor `number` to the source: `count` elements of the tensor from element
    // `begin`. They are at position `at` of a rank's concatenated groups, and may span several
    // groups.
    Result<void> add_part(const Flat& rank, int number, std::int64_t begin, std::int64_t count,
                          std::int64_t at) {
        std::int64_t group_begin = 0;
        for (const tensor::StridedView& flat : rank.groups) {
            const std::int64_t from = std::max(at, group_begin);
            const std::int64_t to = std::min(at + count, group_begin + flat.info.shape[0]);
            if (from < to)
                add_run(rank.path, number, begin + from - at, to - from, flat, from - group_begin);
            group_begin += flat.info.shape[0];
        }
        if (at + count <= group_begin) return {};
        return corrupt(rank.path, "ends before its part of " +
                                      source_.model.tensors[static_cast<std::size_t>(number)].name);
    }

    // Takes the frozen parameters, which have no master weights. With ZeRO 3, each frozen parameter
    // is split over the ranks. Otherwise, each frozen parameter is stored whole.
    Result<void> take_frozen(const TorchFile& first, const std::vector<RankFile>& models) {
        ROLL_TRY(const auto shapes, shapes_of(first, models.front().path, "frozen_param_shapes"));
        if (shapes.empty() || shapes[0].empty()) return {};
        for (std::size_t rank = 0; rank < (stage_ == 3 ? models.size() : 1); ++rank) {
            ROLL_TRY(const TorchPointer file, torch_file(models[rank].path));
            const PickleId* node =
                file->pickle().find(file->pickle().root(), "frozen_param_fragments");
            if (node == nullptr) return corrupt(models[rank].path, "has no frozen_param_fragments");
            for (const Parameter& parameter : shapes[0]) {
                ROLL_TRY(const auto number, number_of(models[rank].path, parameter.name));
                if (!number) continue;
                ROLL_TRY_VOID(check_shape(models[rank].path, *number, parameter.shape));
                const PickleId* fragment = file->pickle().find(*node, parameter.name);
                if (fragment == nullptr)
                    return corrupt(models[rank].path, parameter.name + " is missing");
                ROLL_TRY(const auto view, file->tensor(*fragment));
                if (!view) return corrupt(models[rank].path, parameter.name + " is not a tensor");
                ROLL_TRY_VOID(add_fragment(models[rank].path, *number, *view,
                                           static_cast<std::int64_t>(rank), models.size()));
            }
        }
        return {};
    }

    Result<void> add_fragment(const fs::path& path, int number, const tensor::StridedView& view,
                              std::int64_t rank, std::size_t world) {
        const families::HfTensor& own = source_.model.tensors[static_cast<std::size_t>(number)];
        const std::int64_t count = tensor::volume(own.shape);
        const std::int64_t held = tensor::volume(view.info.shape);
        if (view.strides != tensor::row_major(view.info.shape))
            return corrupt(path, own.name + " is not contiguous");
        const auto ranks = static_cast<std::int64_t>(world);
        const std::int64_t part = stage_ == 3 ? (count + ranks - 1) / ranks : count;
        const std::int64_t begin = std::min(count, rank * part);
        const std::int64_t wanted = std::min(count, begin + part) - begin;
        if (held < wanted) return corrupt(path, own.name + " is incomplete");
        add_run(path, number, begin, wanted, view, 0);
        return {};
    }

    // Takes the buffers, which are stored whole under the key "module".
    Result<void> take_buffers(const TorchFile& file, const fs::path& path) {
        const formats::Pickle& pickle = file.pickle();
        const PickleId* names = pickle.find(pickle.root(), "buffer_names");
        const PickleId* module = pickle.find(pickle.root(), "module");
        if (names == nullptr || module == nullptr) return {};
        for (const PickleId item : pickle.at(*names).items) {
            const std::string& name = pickle.at(item).text;
            const PickleId* node = pickle.find(*module, name);
            if (node == nullptr) continue;
            ROLL_TRY(auto view, file.tensor(*node));
            if (!view) continue;
            ROLL_TRY(const auto number, number_of(path, name));
            if (!number) continue;
            ROLL_TRY_VOID(check_shape(path, *number, view->info.shape));
            Stored stored = whole_tensor(source_.model, *number);
            stored.file = path.filename();
            source_.tensors.push_back({std::move(stored), *std::move(view)});
        }
        return {};
    }

    Source& source_;
    fs::path directory_;
    std::int64_t stage_ = 0;
    std::size_t world_ = 0;
};

bool is_step(const fs::path& directory) {
    std::error_code error;
    return !files_of(directory, "optim_states").empty() ||
           (fs::is_directory(directory / kUniversal, error) &&
            !files_of(directory, "model_states").empty());
}

}  // namespace

std::optional<fs::path> deepspeed_directory(const fs::path& root) {
    if (is_step(root)) return root;
    for (const char* tracker : {"latest_universal", "latest"}) {
        const auto word = read_regular_file(root / tracker);
        if (!word) continue;
        std::string name = *word;
        while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
        const bool is_plain = !name.empty() && name.find('/') == std::string::npos && name != "..";
        if (is_plain && is_step(root / name)) return root / name;
    }
    return std::nullopt;
}

Result<void> open_deepspeed(Source& source, const families::Families& families,
                            const fs::path& given) {
    const auto directory = deepspeed_directory(source.directory);
    ROLL_CHECK(directory);  // nullopt is impossible, because detect_format() has checked it
    ROLL_TRY_VOID(find_config(source, families, {source.directory, *directory}, given));
    ROLL_TRY_VOID(use_tensors(source, false));
    source.config.layout = {};
    return Opener(source, *directory).open();
}

}  // namespace roll::convert
