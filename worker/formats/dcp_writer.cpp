#include <algorithm>
#include <array>

#include "common/check.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/torch_values.hpp"

namespace roll::formats {
namespace {

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

// Metadata -----------------------------------------------------------------------------------

void write_size(PickleWriter& out, const tensor::Shape& shape) {
    out.global("torch", "Size");
    out.integers(shape);
    out.op(pickle_op::kTuple1);
    out.op(pickle_op::kReduce);
}

// Begins an object's state, which is a dict of attributes. The caller then writes the names and
// values of the attributes.
void begin_state(PickleWriter& out) {
    out.op(pickle_op::kEmptyDict);
    out.op(pickle_op::kMark);
}
void end_state(PickleWriter& out) {
    out.op(pickle_op::kSetItems);
    out.op(pickle_op::kBuild);
}

// Writes a TensorProperties: dtype, layout, requires_grad, memory format and pin_memory.
void write_properties(PickleWriter& out, tensor::DType dtype) {
    out.object(kModule, "TensorProperties");
    out.op(pickle_op::kMark);
    out.global("torch", tensor::torch_name_of(dtype));
    out.global("torch.serialization", "_get_layout");
    out.word("torch.strided");
    out.op(pickle_op::kTuple1);
    out.op(pickle_op::kReduce);
    out.boolean(false);
    out.global(kModule, "_MEM_FORMAT_ENCODING");
    out.integer(0);
    out.op(pickle_op::kTuple1);
    out.op(pickle_op::kReduce);
    out.boolean(false);
    out.op(pickle_op::kTuple);
    out.op(pickle_op::kBuild);
}

void write_tensor_metadata(PickleWriter& out, const DcpTensor& tensor) {
    out.object(kModule, "TensorStorageMetadata");
    begin_state(out);
    out.word("properties");
    write_properties(out, tensor.info.dtype);
    out.word("size");
    write_size(out, tensor.info.shape);
    out.word("chunks");
    out.op(pickle_op::kEmptyList);
    out.op(pickle_op::kMark);
    for (const DcpChunk& chunk : tensor.chunks) {
        out.object(kModule, "ChunkStorageMetadata");
        begin_state(out);
        out.word("offsets");
        write_size(out, chunk.begin);
        out.word("sizes");
        write_size(out, chunk.size);
        end_state(out);
    }
    out.op(pickle_op::kAppends);
    end_state(out);
}

// Writes an entry MetadataIndex(fqn, offset, index) -> _StorageInfo(relative_path, offset, length).
// An entry that is not a tensor has no offset.
void write_place(PickleWriter& out, const std::string& name, const tensor::Shape* offset,
                 const DcpExtent& extent) {
    out.object(kModule, "MetadataIndex");
    begin_state(out);
    out.word("fqn");
    out.word(name);
    out.word("offset");
    if (offset != nullptr)
        write_size(out, *offset);
    else
        out.op(pickle_op::kNone);
    out.word("index");
    out.op(pickle_op::kNone);
    end_state(out);
    out.object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    begin_state(out);
    out.word("relative_path");
    out.word(extent.file);
    out.word("offset");
    out.integer(extent.begin);
    out.word("length");
    out.integer(extent.size);
    end_state(out);
}

// Writes the path of dict keys that leads to an entry. The dicts are not nested, so the path is
// only the entry's own key.
void write_way(PickleWriter& out, const std::string& name) {
    out.word(name);
    out.word(name);
    out.op(pickle_op::kTuple1);
}

void write_places(PickleWriter& out, const DcpMetadata& metadata) {
    for (const DcpTensor& tensor : metadata.tensors)
        for (const DcpChunk& chunk : tensor.chunks)
            write_place(out, tensor.info.name, &chunk.begin, chunk.extent);
    for (const DcpObject& object : metadata.objects)
        write_place(out, object.name, nullptr, object.extent);
}

// Writes Megatron's attribute with the original shapes, if a tensor was saved with another shape.
void write_originals(PickleWriter& out, const DcpMetadata& metadata) {
    const bool any =
        std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                    [](const DcpTensor& tensor) { return tensor.original.has_value(); });
    if (!any) return;
    out.word("mcore_data");
    out.op(pickle_op::kEmptyDict);
    out.op(pickle_op::kMark);
    for (const DcpTensor& tensor : metadata.tensors) {
        if (!tensor.original) continue;
        out.word(tensor.info.name);
        out.op(pickle_op::kEmptyDict);
        out.op(pickle_op::kMark);
        out.word("nd_reformulated_orig_global_shape");
        out.integers(*tensor.original);
        out.op(pickle_op::kSetItems);
    }
    out.op(pickle_op::kSetItems);
}

// Items ---------------------------------------------------------------------------------------

std::string item_pickle(const tensor::TensorInfo& info) {
    PickleWriter out;
    write_tensor(out, info, 0);
    return std::move(out).finish();
}

constexpr std::array<std::pair<const char*, std::string_view>, 2> kMarks{
    {{"archive/byteorder", "little"}, {"archive/version", "3\n"}}};

// Lays out the zip members: the pickle, the storage, and the small members that kMarks lists.
Result<ZipLayout> item_layout(const tensor::TensorInfo& info, const std::string& pickle) {
    ROLL_TRY(const std::int64_t bytes, tensor::byte_count(info.dtype, info.shape));
    ZipLayout layout;
    layout.add("archive/data.pkl", static_cast<std::int64_t>(pickle.size()));
    layout.add("archive/data/0", bytes);
    for (const auto& [name, content] : kMarks)
        layout.add(name, static_cast<std::int64_t>(content.size()));
    return layout;
}

Result<void> check_type(const tensor::TensorInfo& info) {
    if (is_torch_type(info.dtype)) return {};
    return fail(ErrorCode::InvalidArgument,
                info.name + " is " + tensor::name_of(info.dtype) + ", a type that torch lacks");
}

}  // namespace

std::string dcp_metadata_pickle(const DcpMetadata& metadata) {
    PickleWriter out;
    out.object(kModule, "Metadata");
    begin_state(out);
    out.word("state_dict_metadata");
    out.op(pickle_op::kEmptyDict);
    out.op(pickle_op::kMark);
    for (const DcpTensor& tensor : metadata.tensors) {
        out.word(tensor.info.name);
        write_tensor_metadata(out, tensor);
    }
    for (const DcpObject& object : metadata.objects) {
        out.word(object.name);
        out.object(kModule, "BytesStorageMetadata");
    }
    out.op(pickle_op::kSetItems);
    out.word("planner_data");
    out.op(pickle_op::kEmptyDict);
    out.op(pickle_op::kMark);
    for (const DcpTensor& tensor : metadata.tensors) write_way(out, tensor.info.name);
    for (const DcpObject& object : metadata.objects) write_way(out, object.name);
    out.op(pickle_op::kSetItems);
    out.word("storage_data");
    out.op(pickle_op::kEmptyDict);
    out.op(pickle_op::kMark);
    write_places(out, metadata);
    out.op(pickle_op::kSetItems);
    out.word("storage_meta");
    out.op(pickle_op::kNone);
    out.word("version");
    out.word("1.0.0");
    write_originals(out, metadata);
    end_state(out);
    return std::move(out).finish();
}

Result<std::vector<DcpExtent>> lay_out_distcp(const std::string& file,
                                              const std::vector<tensor::TensorInfo>& tensors) {
    std::vector<DcpExtent> extents;
    std::int64_t base = 0;
    for (const tensor::TensorInfo& info : tensors) {
        ROLL_TRY_VOID(check_type(info));
        ROLL_TRY(const ZipLayout layout, item_layout(info, item_pickle(info)));
        extents.push_back({file, base, layout.size()});
        base += extents.back().size;
    }
    return extents;
}

Result<DistcpWriter> DistcpWriter::create(const std::filesystem::path& path,
                                          const std::vector<tensor::TensorInfo>& tensors,
                                          const std::filesystem::path& earlier) {
    ROLL_TRY(const auto extents, lay_out_distcp(path.filename().string(), tensors));
    ROLL_TRY(tensor::OutputFile file, tensor::OutputFile::create(path, earlier));
    DistcpWriter writer(std::move(file));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        Item item{extents[i].begin, {}, item_pickle(tensors[i]), 0};
        ROLL_TRY(item.layout, item_layout(tensors[i], item.pickle));
        writer.items_.push_back(std::move(item));
    }
    return writer;
}

Result<void> DistcpWriter::append(std::size_t tensor, std::span<const std::byte> bytes) {
    Item& item = items_[tensor];
    ZipMember& storage = item.layout.members()[1];
    ROLL_CHECK(static_cast<std::int64_t>(bytes.size()) <= storage.size - item.written);
    ROLL_TRY_VOID(file_.write_at(item.base + storage.begin + item.written, bytes));
    storage.crc = crc32_of(storage.crc, bytes);
    item.written += static_cast<std::int64_t>(bytes.size());
    return {};
}

Result<void> DistcpWriter::finish() {
    for (Item& item : items_) {
        auto& members = item.layout.members();
        ROLL_CHECK(item.written == members[1].size);
        const std::array<std::pair<std::size_t, std::string_view>, 3> small{
            {{0, item.pickle}, {2, kMarks[0].second}, {3, kMarks[1].second}}};
        for (const auto& [member, content] : small) {
            members[member].crc = crc32_of(0, tensor::as_bytes(content));
            ROLL_TRY_VOID(
                file_.write_at(item.base + members[member].begin, tensor::as_bytes(content)));
        }
        ROLL_TRY_VOID(item.layout.write_headers(file_, item.base));
    }
    return file_.finish();
}

}  // namespace roll::formats
