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

// Writes a TensorProperties: dtype, layout, requires_grad, memory format and pin_memory.
void write_properties(PickleWriter& out, tensor::DType dtype) {
    out.object(kModule, "TensorProperties");
    out.tuple([&] {
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
    });
    out.op(pickle_op::kBuild);
}

void write_chunk(PickleWriter& out, const DcpChunk& chunk) {
    out.object(kModule, "ChunkStorageMetadata");
    out.attributes([&] {
        out.word("offsets");
        write_size(out, chunk.begin);
        out.word("sizes");
        write_size(out, chunk.size);
    });
}

void write_tensor_metadata(PickleWriter& out, const DcpTensor& tensor) {
    out.object(kModule, "TensorStorageMetadata");
    out.attributes([&] {
        out.word("properties");
        write_properties(out, tensor.info.dtype);
        out.word("size");
        write_size(out, tensor.info.shape);
        out.word("chunks");
        out.list([&] {
            for (const DcpChunk& chunk : tensor.chunks) write_chunk(out, chunk);
        });
    });
}

// Writes an entry MetadataIndex(fqn, offset, index) -> _StorageInfo(relative_path, offset, length).
// An entry that is not a tensor has no offset.
void write_place(PickleWriter& out, const std::string& name, const tensor::Shape* offset,
                 const DcpExtent& extent) {
    out.object(kModule, "MetadataIndex");
    out.attributes([&] {
        out.word("fqn");
        out.word(name);
        out.word("offset");
        if (offset != nullptr)
            write_size(out, *offset);
        else
            out.op(pickle_op::kNone);
        out.word("index");
        out.op(pickle_op::kNone);
    });
    out.object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    out.attributes([&] {
        out.word("relative_path");
        out.word(extent.file);
        out.word("offset");
        out.integer(extent.begin);
        out.word("length");
        out.integer(extent.size);
    });
}

// Writes the path to the entry `name` as a tuple of dict keys. Roll's state dicts are not nested,
// so the tuple has one key, which is `name` itself.
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

// Writes Megatron's attribute mcore_data, which has the original shape of each flattened tensor.
// Writes nothing if no tensor is flattened.
void write_originals(PickleWriter& out, const DcpMetadata& metadata) {
    const bool any =
        std::any_of(metadata.tensors.begin(), metadata.tensors.end(),
                    [](const DcpTensor& tensor) { return tensor.original.has_value(); });
    if (!any) return;
    out.word("mcore_data");
    out.dict([&] {
        for (const DcpTensor& tensor : metadata.tensors) {
            if (!tensor.original) continue;
            out.word(tensor.info.name);
            out.dict([&] {
                out.word("nd_reformulated_orig_global_shape");
                out.integers(*tensor.original);
            });
        }
    });
}

// Items ---------------------------------------------------------------------------------------

std::string item_pickle(const tensor::TensorInfo& info) {
    PickleWriter out;
    write_tensor(out, info, 0);
    return std::move(out).finish();
}

constexpr std::array<std::pair<const char*, std::string_view>, 2> kMarks{
    {{"archive/byteorder", "little"}, {"archive/version", "3\n"}}};

}  // namespace

std::string dcp_metadata_pickle(const DcpMetadata& metadata) {
    PickleWriter out;
    out.object(kModule, "Metadata");
    out.attributes([&] {
        out.word("state_dict_metadata");
        out.dict([&] {
            for (const DcpTensor& tensor : metadata.tensors) {
                out.word(tensor.info.name);
                write_tensor_metadata(out, tensor);
            }
            for (const DcpObject& object : metadata.objects) {
                out.word(object.name);
                out.object(kModule, "BytesStorageMetadata");
            }
        });
        out.word("planner_data");
        out.dict([&] {
            for (const DcpTensor& tensor : metadata.tensors) write_way(out, tensor.info.name);
            for (const DcpObject& object : metadata.objects) write_way(out, object.name);
        });
        out.word("storage_data");
        out.dict([&] { write_places(out, metadata); });
        out.word("storage_meta");
        out.op(pickle_op::kNone);
        out.word("version");
        out.word("1.0.0");
        write_originals(out, metadata);
    });
    return std::move(out).finish();
}

Result<DistcpItem> distcp_item(const tensor::TensorInfo& tensor) {
    ROLL_TRY_VOID(check_torch_type(tensor));
    ROLL_TRY(const std::int64_t bytes, tensor::byte_count(tensor.dtype, tensor.shape));
    DistcpItem item{{}, item_pickle(tensor)};
    item.layout.add("archive/data.pkl", static_cast<std::int64_t>(item.pickle.size()));
    item.layout.add("archive/data/0", bytes);
    item.layout.members().front().crc = crc32_of(0, tensor::as_bytes(item.pickle));
    for (const auto& [name, content] : kMarks) {
        item.layout.add(name, static_cast<std::int64_t>(content.size()));
        item.layout.members().back().crc = crc32_of(0, tensor::as_bytes(content));
    }
    return item;
}

std::string front_of(const DistcpItem& item) {
    return item.layout.header(0) + item.pickle + item.layout.header(1);
}

std::string back_of(const DistcpItem& item) {
    std::string text;
    for (std::size_t i = 0; i < kMarks.size(); ++i)
        text += item.layout.header(2 + i) + std::string(kMarks[i].second);
    return text + item.layout.directory();
}

Result<std::vector<DcpExtent>> lay_out_distcp(const std::string& file,
                                              const std::vector<tensor::TensorInfo>& tensors) {
    std::vector<DcpExtent> extents;
    std::int64_t base = 0;
    for (const tensor::TensorInfo& info : tensors) {
        ROLL_TRY(const DistcpItem item, distcp_item(info));
        extents.push_back({file, base, item.layout.size()});
        base += extents.back().size;
    }
    return extents;
}

Result<DistcpWriter> DistcpWriter::create(const std::filesystem::path& path,
                                          const std::vector<tensor::TensorInfo>& tensors,
                                          const std::filesystem::path& earlier) {
    ROLL_TRY(tensor::OutputFile file, tensor::OutputFile::create(path, earlier));
    DistcpWriter writer(std::move(file));
    std::int64_t base = 0;
    for (const tensor::TensorInfo& info : tensors) {
        ROLL_TRY(DistcpItem item, distcp_item(info));
        const std::int64_t size = item.layout.size();
        writer.items_.push_back({base, std::move(item), 0});
        base += size;
    }
    return writer;
}

Result<void> DistcpWriter::append(std::size_t tensor, std::span<const std::byte> bytes) {
    Item& item = items_[tensor];
    ZipMember& content = item.stored.content();
    ROLL_CHECK(static_cast<std::int64_t>(bytes.size()) <= content.size - item.written);
    ROLL_TRY_VOID(file_.write_at(item.base + content.begin + item.written, bytes));
    content.crc = crc32_of(content.crc, bytes);
    item.written += static_cast<std::int64_t>(bytes.size());
    return {};
}

Result<void> DistcpWriter::finish() {
    for (const Item& item : items_) {
        const ZipMember& content = item.stored.content();
        ROLL_CHECK(item.written == content.size);
        ROLL_TRY_VOID(file_.write_at(item.base, tensor::as_bytes(front_of(item.stored))));
        ROLL_TRY_VOID(file_.write_at(item.base + content.begin + content.size,
                                     tensor::as_bytes(back_of(item.stored))));
    }
    return file_.finish();
}

}  // namespace roll::formats
