#include "worker/formats/torch_file.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "common/damage.hpp"
#include "worker/formats/torch_values.hpp"

namespace roll::formats {
namespace {

// Returns 1 + the index of the last storage element that the view uses; nullopt on 64-bit overflow.
std::optional<std::int64_t> reach(std::int64_t offset, const tensor::Shape& shape,
                                  const std::vector<std::int64_t>& strides) {
    if (offset < 0) return std::nullopt;
    std::int64_t last = offset;
    bool empty = false;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
        if (shape[dim] < 0 || strides[dim] < 0) return std::nullopt;
        empty |= shape[dim] == 0;
        std::int64_t step = 0;
        if (shape[dim] > 0 && (__builtin_mul_overflow(shape[dim] - 1, strides[dim], &step) ||
                               __builtin_add_overflow(last, step, &last)))
            return std::nullopt;
    }
    return empty ? 0 : last + 1;
}

// Writing ---------------------------------------------------------------------------------------

// Writes a nested dict of tensors. Each '/' in a tensor's name starts an inner dict. The first
// `from` characters of the names are the keys of the outer dicts, which the caller has written.
// `key` is the storage key of the first tensor. Requires that the tensors of each inner dict are
// adjacent.
void write_nested(PickleWriter& out, std::span<const tensor::TensorInfo> tensors, std::size_t from,
                  std::size_t key) {
    out.dict([&] {
        for (std::size_t i = 0; i < tensors.size();) {
            const std::string& name = tensors[i].name;
            const std::size_t slash = name.find('/', from);
            out.text(name.substr(from, slash == std::string::npos ? slash : slash - from));
            if (slash == std::string::npos) {
                write_tensor(out, tensors[i], key + i);
                ++i;
                continue;
            }
            const std::string_view front = std::string_view(name).substr(0, slash + 1);
            std::size_t end = i;
            while (end < tensors.size() && tensors[end].name.starts_with(front)) ++end;
            write_nested(out, tensors.subspan(i, end - i), slash + 1, key + i);
            i = end;
        }
    });
}

std::string pickle_of(const std::vector<TorchSection>& sections,
                      const std::function<void(PickleWriter&)>& more) {
    PickleWriter out;
    std::size_t key = 0;
    const auto write_section = [&](const TorchSection& section) {
        if (section.nested) {
            write_nested(out, section.tensors, 0, key);
            key += section.tensors.size();
            return;
        }
        out.dict([&] {
            for (const tensor::TensorInfo& info : section.tensors) {
                out.text(info.name);
                write_tensor(out, info, key++);
            }
            for (const std::string& name : section.nones) {
                out.text(name);
                out.op(pickle_op::kNone);
            }
        });
    };
    if (sections.size() == 1 && sections[0].key.empty()) {
        write_section(sections[0]);
        return std::move(out).finish();
    }
    out.dict([&] {
        for (const TorchSection& section : sections) {
            out.text(section.key);
            write_section(section);
        }
        if (more) more(out);
    });
    return std::move(out).finish();
}

}  // namespace

// Reading ---------------------------------------------------------------------------------------

Result<TorchFile> TorchFile::open(const std::filesystem::path& path) {
    ROLL_TRY(MappedFile opened, MappedFile::open(path));
    const auto file = std::make_shared<MappedFile>(std::move(opened));
    ROLL_TRY(TorchFile result, parse(path, file->bytes()));
    result.file_ = file;
    return result;
}

Result<TorchFile> TorchFile::parse(const std::filesystem::path& path,
                                   std::span<const std::byte> bytes) {
    const auto refuse = [&](const std::string& what) {
        return fail(ErrorCode::Corrupt, path.string() + ": " + what, kCopyAgain);
    };
    if (bytes.size() < 4 || bytes[0] != std::byte{'P'} || bytes[1] != std::byte{'K'})
        return fail(ErrorCode::Corrupt,
                    path.string() +
                        ": the file is not a zip archive; Roll does not read the format of "
                        "torch.save before torch 1.6",
                    "save the file again with a newer torch: torch.save(torch.load(FILE), FILE)");
    const auto members = parse_zip(bytes);
    if (!members) return refuse(members.error().message);
    const auto content = [&](const ZipMember& member) {
        return bytes.subspan(static_cast<std::size_t>(member.begin),
                             static_cast<std::size_t>(member.size));
    };
    std::string top;
    const ZipMember* data = nullptr;
    for (const ZipMember& member : *members) {
        const std::size_t slash = member.name.find('/');
        if (slash == std::string::npos || member.name.substr(slash) != "/data.pkl") continue;
        if (data != nullptr) return refuse("the zip archive has two members data.pkl");
        data = &member;
        top = member.name.substr(0, slash + 1);
    }
    if (data == nullptr)
        return fail(ErrorCode::Corrupt, path.string() +
                                            ": the zip archive has no data.pkl, so torch.save did "
                                            "not write it; copy the file again");
    auto pickle = Pickle::parse(content(*data));
    if (!pickle) return refuse(pickle.error().message);
    TorchFile result(path, bytes, *std::move(pickle));
    for (const ZipMember& member : *members) {
        if (member.name == top + "byteorder") {
            const auto order = content(member);
            if (!order.empty() && order[0] == std::byte{'b'})
                return fail(ErrorCode::Corrupt, path.string() +
                                                    ": the tensors are stored big-endian; save the "
                                                    "file again on a little-endian machine");
        }
        if (member.name.starts_with(top + "data/"))
            result.storages_[member.name.substr(top.size() + 5)] = member;
    }
    return result;
}

tl::unexpected<Error> TorchFile::corrupt(const std::string& what) const {
    return fail(ErrorCode::Corrupt, path_.string() + ": " + what, kCopyAgain);
}

// Returns the tensor that torch would rebuild from these arguments: storage, offset, size, stride,
// requires_grad, hooks[, dtype if `typed`][, metadata].
Result<tensor::StridedView> TorchFile::rebuild(const PickleNode& arguments, bool typed) const {
    if (arguments.items.size() < (typed ? 7U : 4U) ||
        !pickle_.is(arguments.items[0], PickleKind::Persistent) ||
        !pickle_.is(arguments.items[1], PickleKind::Int))
        return corrupt("a tensor has no storage");
    const PickleNode& id = pickle_.at(pickle_.at(arguments.items[0]).items[0]);
    if (id.kind != PickleKind::Tuple || id.items.size() < 5 ||
        !pickle_.is(id.items[1], PickleKind::Global) || !pickle_.is(id.items[2], PickleKind::Text))
        return corrupt("a tensor's storage has no name");
    tensor::StridedView view;
    const std::string& type = pickle_.at(typed ? arguments.items[6] : id.items[1]).text;
    const auto dtype = typed ? dtype_of_torch(type) : dtype_of_storage(type);
    if (!dtype)
        return fail(ErrorCode::Corrupt,
                    path_.string() + ": a tensor has the element type " + type +
                        ", which Roll does not read",
                    "save the file again with another type, such as torch.bfloat16");
    view.info.dtype = *dtype;

    const auto shape = integers_of(pickle_, arguments.items[2]);
    const auto strides = integers_of(pickle_, arguments.items[3]);
    if (!shape || !strides || shape->size() != strides->size() || shape->size() > 64)
        return corrupt("a tensor has no shape");
    view.info.shape = *shape;
    view.strides = *strides;
    const std::string& key = pickle_.at(id.items[2]).text;
    const auto storage = storages_.find(key);
    if (storage == storages_.end()) return corrupt("storage " + key + " is missing");
    const std::int64_t bytes = tensor::bits_of(*dtype) / 8;
    const std::int64_t offset = pickle_.at(arguments.items[1]).integer;
    const auto needed = reach(offset, *shape, *strides);
    if (!needed || *needed > storage->second.size / bytes)
        return corrupt("a tensor of shape " + tensor::to_string(*shape) +
                       " is larger than its storage " + key + " of " +
                       std::to_string(storage->second.size) + " bytes");
    ROLL_TRY_VOID(tensor::byte_count(*dtype, *shape));
    view.first = bytes_.data() + storage->second.begin + (*needed > 0 ? offset * bytes : 0);
    return view;
}

namespace {

// A pickled call that rebuilds an object: the function and its arguments.
struct Rebuild {
    std::string_view function;
    const PickleNode* arguments = nullptr;

    bool is(std::string_view name) const { return function == name; }
};

// Returns the function and the arguments with which a pickled call rebuilds a tensor. Returns
// nullopt if the node is not a call. A tensor with its own attributes is a call of
// _rebuild_from_type_v2 with four arguments: function, class, arguments and attributes. In this
// case, returns the inner function and its arguments.
std::optional<Rebuild> rebuild_of(const Pickle& pickle, PickleId id) {
    const PickleNode& call = pickle.at(id);
    if (call.kind != PickleKind::Call || !pickle.is(call.items[0], PickleKind::Global) ||
        !pickle.is(call.items[1], PickleKind::Tuple))
        return std::nullopt;
    const Rebuild direct{pickle.at(call.items[0]).text, &pickle.at(call.items[1])};
    if (!direct.is("torch._tensor _rebuild_from_type_v2")) return direct;
    const std::vector<PickleId>& items = direct.arguments->items;
    const bool is_plain = items.size() == 4 && pickle.is(items[0], PickleKind::Global) &&
                          pickle.is(items[2], PickleKind::Tuple) &&
                          (pickle.is_global(items[1], "torch Tensor") ||
                           pickle.is_global(items[1], "torch.nn.parameter Parameter"));
    if (!is_plain) return std::nullopt;
    return Rebuild{pickle.at(items[0]).text, &pickle.at(items[2])};
}

}  // namespace

Result<std::optional<tensor::StridedView>> TorchFile::tensor(PickleId id) const {
    std::optional<Rebuild> call = rebuild_of(pickle_, id);
    for (const char* wrapper :
         {"torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
          "torch.nn.parameter Parameter"}) {
        if (!call || !call->is(wrapper) || call->arguments->items.empty()) continue;
        call = rebuild_of(pickle_, call->arguments->items[0]);
        break;
    }
    const bool typed = call && call->is("torch._utils _rebuild_tensor_v3");
    if (!call || (!typed && !call->is("torch._utils _rebuild_tensor_v2"))) return std::nullopt;
    ROLL_TRY(tensor::StridedView view, rebuild(*call->arguments, typed));
    return view;
}

Result<StateDict> TorchFile::state_dict(PickleId id) const {
    const std::vector<PickleId>* entries = pickle_.entries_of(id);
    if (entries == nullptr) return corrupt("the state dict is not a dict");
    StateDict result;
    std::map<std::string_view, int> seen;
    for (std::size_t i = 0; i + 1 < entries->size(); i += 2) {
        const PickleNode& key = pickle_.at((*entries)[i]);
        if (key.kind != PickleKind::Text) return corrupt("a state dict has a key that is not text");
        if (++seen[key.text] > 1) return corrupt("a state dict has " + key.text + " twice");
        auto view = tensor((*entries)[i + 1]);
        if (!view) return fail(view.error().code, view.error().message + " (key " + key.text + ")");
        if (!*view) {
            result.others.push_back(key.text);
            continue;
        }
        (*view)->info.name = key.text;
        result.tensors.push_back(**std::move(view));
    }
    return result;
}

// Writing ---------------------------------------------------------------------------------------

namespace {

TorchImage image_of(const std::filesystem::path& path, std::string pickle,
                    const std::vector<std::int64_t>& sizes) {
    const std::string top = path.stem().string();
    TorchImage image{std::move(pickle), {"little", "3\n"}, {}};
    image.layout.add(top + "/data.pkl", static_cast<std::int64_t>(image.pickle.size()));
    for (std::size_t i = 0; i < sizes.size(); ++i)
        image.layout.add(top + "/data/" + std::to_string(i), sizes[i]);
    image.layout.add(top + "/byteorder", static_cast<std::int64_t>(image.marks[0].size()));
    image.layout.add(top + "/version", static_cast<std::int64_t>(image.marks[1].size()));
    return image;
}

}  // namespace

Result<TorchImage> torch_image(const std::filesystem::path& path,
                               const std::vector<TorchSection>& sections,
                               const std::function<void(PickleWriter&)>& more) {
    std::vector<std::int64_t> sizes;
    for (const TorchSection& section : sections) {
        for (const tensor::TensorInfo& info : section.tensors) {
            ROLL_TRY_VOID(check_torch_type(info));
            ROLL_TRY(const std::int64_t bytes, tensor::byte_count(info.dtype, info.shape));
            sizes.push_back(bytes);
        }
    }
    return image_of(path, pickle_of(sections, more), sizes);
}

Result<TorchFileWriter> TorchFileWriter::create(const std::filesystem::path& path,
                                                std::vector<TorchSection> sections,
                                                const std::function<void(PickleWriter&)>& more,
                                                const std::filesystem::path& earlier) {
    ROLL_TRY(TorchImage image, torch_image(path, sections, more));
    return begin(path, std::move(image), earlier);
}

Result<TorchFileWriter> TorchFileWriter::begin(const std::filesystem::path& path, TorchImage image,
                                               const std::filesystem::path& earlier) {
    ROLL_TRY(tensor::OutputFile file, tensor::OutputFile::create(path, earlier));
    TorchFileWriter writer(std::move(file), std::move(image.layout));
    const std::size_t members = writer.layout_.members().size();
    writer.written_.assign(members, 0);
    const auto write = [&](std::size_t member, std::string_view content) {
        return writer.append_to(member, tensor::as_bytes(content));
    };
    ROLL_TRY_VOID(write(0, image.pickle));
    ROLL_TRY_VOID(write(members - 2, image.marks[0]));
    ROLL_TRY_VOID(write(members - 1, image.marks[1]));
    return writer;
}

Result<void> TorchFileWriter::append_to(std::size_t member, std::span<const std::byte> bytes) {
    ZipMember& place = layout_.members()[member];
    ROLL_CHECK(static_cast<std::int64_t>(bytes.size()) <= place.size - written_[member]);
    ROLL_TRY_VOID(file_.write_at(place.begin + written_[member], bytes));
    place.crc = crc32_of(place.crc, bytes);
    written_[member] += static_cast<std::int64_t>(bytes.size());
    return {};
}

Result<void> TorchFileWriter::append(std::size_t tensor, std::span<const std::byte> bytes) {
    return append_to(tensor + 1, bytes);
}

Result<void> TorchFileWriter::finish() {
    for (std::size_t i = 0; i < written_.size(); ++i)
        ROLL_CHECK(written_[i] == layout_.members()[i].size);
    ROLL_TRY_VOID(layout_.write_headers(file_));
    return file_.finish();
}

Result<void> write_torch_pickle(const std::filesystem::path& path, const std::string& pickle) {
    ROLL_TRY(TorchFileWriter writer, TorchFileWriter::begin(path, image_of(path, pickle, {})));
    return writer.finish();
}

}  // namespace roll::formats
