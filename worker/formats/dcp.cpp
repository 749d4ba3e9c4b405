#include "worker/formats/dcp.hpp"

#include <algorithm>
#include <map>

#include "common/check.hpp"
#include "common/damage.hpp"
#include "common/files.hpp"
#include "worker/formats/torch_file.hpp"
#include "worker/formats/torch_values.hpp"

namespace roll::formats {
namespace {

namespace fs = std::filesystem;
using tensor::Shape;

constexpr std::size_t kDimsMax = 16;
constexpr const char* kOriginalShape = "nd_reformulated_orig_global_shape";

tl::unexpected<Error> corrupt_metadata(const std::string& what) {
    return fail(ErrorCode::Corrupt, std::string(kDcpMetadataFile) + ": " + what);
}

// Reads the metadata from the pickle. Compares only the last part of class names: Megatron
// subclasses torch's classes, and torch has moved them between modules.
class MetadataReader {
  public:
    explicit MetadataReader(const Pickle& pickle) : pickle_(pickle) {}

    Result<DcpMetadata> read() {
        const PickleId* tensors = field(pickle_.root(), "state_dict_metadata");
        const PickleId* storage = field(pickle_.root(), "storage_data");
        if (tensors == nullptr || storage == nullptr || pickle_.entries_of(*tensors) == nullptr ||
            pickle_.entries_of(*storage) == nullptr)
            return corrupt_metadata(
                "is not the metadata of a distributed checkpoint; copy the file again");
        ROLL_TRY_VOID(read_storage(*pickle_.entries_of(*storage)));
        const std::vector<PickleId>& entries = *pickle_.entries_of(*tensors);
        DcpMetadata metadata;
        for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
            const PickleNode& key = pickle_.at(entries[i]);
            if (key.kind != PickleKind::Text)
                return corrupt_metadata("has a key that is not text; copy the file again");
            if (is_class(entries[i + 1], "BytesStorageMetadata")) {
                const auto place = objects_.find(key.text);
                if (place == objects_.end()) return corrupt_metadata(key.text + " is in no file");
                metadata.objects.push_back({key.text, place->second});
            } else {
                ROLL_TRY(DcpTensor tensor, read_tensor(key.text, entries[i + 1]));
                ROLL_TRY_VOID(read_original(tensor));
                metadata.tensors.push_back(std::move(tensor));
            }
        }
        return metadata;
    }

  private:
    // Returns the attribute `name` of an object; nullptr if the object lacks it.
    const PickleId* field(PickleId object, const char* name) const {
        const PickleNode& node = pickle_.at(object);
        if (node.kind != PickleKind::Call || node.state == kNoPickle) return nullptr;
        return pickle_.find(node.state, name);
    }
    bool is_class(PickleId object, const std::string& name) const {
        const PickleNode& node = pickle_.at(object);
        return node.kind == PickleKind::Call && pickle_.is(node.items[0], PickleKind::Global) &&
               pickle_.at(node.items[0]).text.ends_with(" " + name);
    }
    std::optional<std::int64_t> integer(const PickleId* id) const {
        if (id == nullptr || !pickle_.is(*id, PickleKind::Int)) return std::nullopt;
        return pickle_.at(*id).integer;
    }
    std::optional<Shape> sizes(const PickleId* id) const {
        if (id == nullptr) return std::nullopt;
        auto found = integers_of(pickle_, *id);
        return found && found->size() <= kDimsMax ? found : std::nullopt;
    }

    Result<void> read_storage(const std::vector<PickleId>& entries) {
        for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
            const PickleId* key = field(entries[i], "fqn");
            if (key == nullptr || !pickle_.is(*key, PickleKind::Text))
                return corrupt_metadata("has an entry without a name");
            const std::string& name = pickle_.at(*key).text;
            ROLL_TRY(DcpExtent extent, read_extent(name, entries[i + 1]));
            const auto offset = sizes(field(entries[i], "offset"));
            if (offset)
                stored_[{name, *offset}] = std::move(extent);
            else
                objects_[name] = std::move(extent);
        }
        return {};
    }

    Result<DcpExtent> read_extent(const std::string& name, PickleId info) const {
        const PickleId* path = field(info, "relative_path");
        const auto begin = integer(field(info, "offset"));
        const auto size = integer(field(info, "length"));
        if (path == nullptr || !pickle_.is(*path, PickleKind::Text) || !begin || !size ||
            *begin < 0 || *size < 0)
            return corrupt_metadata(name + " has no place");
        const std::string& file = pickle_.at(*path).text;
        if (file.empty() || file.front() == '/' || file.find('\0') != std::string::npos ||
            ("/" + file + "/").find("/../") != std::string::npos)
            return corrupt_metadata(name + " is in \"" + file + "\", outside the checkpoint");
        const PickleId* transforms = field(info, "transform_descriptors");
        if (transforms != nullptr && !pickle_.is(*transforms, PickleKind::None) &&
            !pickle_.at(*transforms).items.empty())
            return corrupt_metadata(name + " is compressed or encrypted, which Roll does not read");
        return DcpExtent{file, *begin, *size};
    }

    Result<tensor::DType> read_dtype(const std::string& name, PickleId object) const {
        const PickleId* properties = field(object, "properties");
        if (properties == nullptr) return corrupt_metadata(name + " has no type");
        const PickleNode& node = pickle_.at(*properties);
        PickleId type = kNoPickle;
        if (node.kind == PickleKind::Call && node.state != kNoPickle) {
            const PickleNode& state = pickle_.at(node.state);
            if (state.kind == PickleKind::Tuple && !state.items.empty()) type = state.items[0];
            if (const PickleId* found = pickle_.find(node.state, "dtype"); found != nullptr)
                type = *found;
        }
        if (type == kNoPickle || !pickle_.is(type, PickleKind::Global))
            return corrupt_metadata(name + " has no type");
        const auto dtype = dtype_of_torch(pickle_.at(type).text);
        if (!dtype)
            return corrupt_metadata(name + " has the element type " + pickle_.at(type).text +
                                    ", which Roll does not read");
        return *dtype;
    }

    Result<DcpTensor> read_tensor(const std::string& name, PickleId object) const {
        const auto shape = sizes(field(object, "size"));
        const PickleId* chunks = field(object, "chunks");
        if (!shape || chunks == nullptr || !pickle_.is(*chunks, PickleKind::List))
            return corrupt_metadata(name +
                                    " is neither a tensor nor an object; copy the file again");
        DcpTensor tensor;
        tensor.info.name = name;
        tensor.info.shape = *shape;
        ROLL_TRY(tensor.info.dtype, read_dtype(name, object));
        ROLL_TRY_VOID(tensor::byte_count(tensor.info.dtype, *shape));
        for (const PickleId one : pickle_.at(*chunks).items) {
            const auto begin = sizes(field(one, "offsets"));
            const auto size = sizes(field(one, "sizes"));
            if (!begin || !size)
                return corrupt_metadata(
                    name + " has a chunk without an offset or a size; copy the file again");
            const auto found = stored_.find({name, *begin});
            if (found == stored_.end())
                return corrupt_metadata("the chunk of " + name + " at " +
                                        tensor::to_string(*begin) + " is in no file");
            tensor.chunks.push_back({*begin, *size, found->second});
        }
        ROLL_TRY_VOID(check_chunks(tensor));
        return tensor;
    }

    // Sets the tensor's original shape from Megatron's own entry for this key, if the checkpoint
    // has such an entry.
    Result<void> read_original(DcpTensor& tensor) const {
        const PickleId* all = field(pickle_.root(), "mcore_data");
        const PickleId* own = all == nullptr ? nullptr : pickle_.find(*all, tensor.info.name);
        const PickleId* shape = own == nullptr ? nullptr : pickle_.find(*own, kOriginalShape);
        if (shape == nullptr) return {};
        tensor.original = sizes(shape);
        const tensor::Shape& saved = tensor.info.shape;
        bool fits = tensor.original && tensor.original->size() + 1 == saved.size() &&
                    tensor::element_count(*tensor.original).has_value();
        std::int64_t local = 1;
        for (std::size_t dim = 0; fits && dim + 1 < saved.size(); ++dim) {
            const std::int64_t whole = (*tensor.original)[dim];
            fits = whole > 0 && saved[dim] > 0 && whole % saved[dim] == 0;
            if (fits) local *= whole / saved[dim];
        }
        if (fits && local == saved.back()) return {};
        return corrupt_metadata(tensor.info.name + " " + tensor::to_string(saved) +
                                " cannot be the flattened form of its original shape");
    }

    // Returns true if two chunks share an element.
    static bool overlap(const DcpChunk& a, const DcpChunk& b) {
        for (std::size_t dim = 0; dim < a.begin.size(); ++dim)
            if (a.begin[dim] + a.size[dim] <= b.begin[dim] ||
                b.begin[dim] + b.size[dim] <= a.begin[dim])
                return false;
        return true;
    }
    // Checks that the chunks fill the tensor exactly. First sorts them by `begin`, so that each
    // chunk is compared with nearby chunks only.
    static Result<void> check_chunks(DcpTensor& tensor) {
        const Shape& shape = tensor.info.shape;
        std::int64_t held = 0;
        for (const DcpChunk& chunk : tensor.chunks) {
            bool inside = chunk.begin.size() == shape.size() && chunk.size.size() == shape.size();
            for (std::size_t dim = 0; inside && dim < shape.size(); ++dim)
                inside = chunk.begin[dim] >= 0 && chunk.size[dim] >= 0 &&
                         chunk.begin[dim] <= shape[dim] &&
                         chunk.size[dim] <= shape[dim] - chunk.begin[dim];
            if (!inside)
                return corrupt_metadata("a chunk of " + tensor.info.name +
                                        " lies outside the tensor; copy the file again");
            held += tensor::element_count(chunk.size).value();
        }
        const auto refuse = [&] {
            return corrupt_metadata("the chunks of " + tensor.info.name + " " +
                                    tensor::to_string(shape) +
                                    " do not cover the tensor exactly; copy the file again");
        };
        if (held != tensor::element_count(shape).value()) return refuse();
        std::sort(tensor.chunks.begin(), tensor.chunks.end(),
                  [](const DcpChunk& a, const DcpChunk& b) { return a.begin < b.begin; });
        for (std::size_t i = 0; i < tensor.chunks.size() && !shape.empty(); ++i)
            for (std::size_t j = i + 1; j < tensor.chunks.size(); ++j) {
                const DcpChunk& a = tensor.chunks[i];
                const DcpChunk& b = tensor.chunks[j];
                if (b.begin[0] >= a.begin[0] + a.size[0]) break;
                if (overlap(a, b)) return refuse();
            }
        return {};
    }

    const Pickle& pickle_;
    std::map<std::pair<std::string, Shape>, DcpExtent> stored_;
    std::map<std::string, DcpExtent> objects_;
};

}  // namespace

Result<DcpMetadata> parse_dcp_metadata(std::span<const std::byte> bytes) {
    const auto pickle = Pickle::parse(bytes);
    if (!pickle)
        return fail(ErrorCode::Corrupt,
                    std::string(kDcpMetadataFile) + ": " + pickle.error().message, kCopyAgain);
    return MetadataReader(*pickle).read();
}

Result<DcpMetadata> read_dcp_metadata(const fs::path& directory) {
    ROLL_TRY(const MappedFile file, MappedFile::open(directory / kDcpMetadataFile));
    auto metadata = parse_dcp_metadata(file.bytes());
    if (!metadata)
        return fail(metadata.error().code, (directory / metadata.error().message).string(),
                    metadata.error().hint);
    return metadata;
}

Result<tensor::StridedView> open_dcp_chunk(const fs::path& path, std::span<const std::byte> file,
                                           const tensor::TensorInfo& info, const DcpChunk& chunk) {
    const auto total = static_cast<std::int64_t>(file.size());
    const auto refuse = [&](const std::string& what) {
        return fail(
            ErrorCode::Corrupt,
            path.string() + ": " + info.name + " at " + tensor::to_string(chunk.begin) + " " + what,
            kCopyAgain);
    };
    if (chunk.extent.begin > total || chunk.extent.size > total - chunk.extent.begin)
        return refuse("lies beyond the end of the file");
    ROLL_TRY(const TorchFile item,
             TorchFile::parse(path, file.subspan(static_cast<std::size_t>(chunk.extent.begin),
                                                 static_cast<std::size_t>(chunk.extent.size))));
    ROLL_TRY(auto view, item.tensor(item.pickle().root()));
    if (!view) return refuse("is not a tensor");
    if (view->info.shape != chunk.size || view->info.dtype != info.dtype)
        return refuse("is " + std::string(tensor::name_of(view->info.dtype)) + " " +
                      tensor::to_string(view->info.shape) + "; the metadata says " +
                      tensor::name_of(info.dtype) + " " + tensor::to_string(chunk.size));
    return *std::move(view);
}

}  // namespace roll::formats
