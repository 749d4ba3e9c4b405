#include "worker/formats/torch_values.hpp"

#include <array>

namespace roll::formats {
namespace {

using tensor::DType;

struct StorageRow {
    const char* global;
    DType dtype;
};
constexpr std::array<StorageRow, 9> kStorages{{{"torch FloatStorage", DType::F32},
                                               {"torch DoubleStorage", DType::F64},
                                               {"torch HalfStorage", DType::F16},
                                               {"torch BFloat16Storage", DType::BF16},
                                               {"torch LongStorage", DType::I64},
                                               {"torch IntStorage", DType::I32},
                                               {"torch CharStorage", DType::I8},
                                               {"torch ByteStorage", DType::U8},
                                               {"torch BoolStorage", DType::Bool}}};

}  // namespace

std::optional<DType> dtype_of_storage(std::string_view global) {
    for (const StorageRow& row : kStorages)
        if (global == row.global) return row.dtype;
    return std::nullopt;
}

std::optional<DType> dtype_of_torch(std::string_view global) {
    for (int i = 0; i < tensor::kDTypes; ++i) {
        const auto dtype = static_cast<DType>(i);
        const std::string_view name = tensor::torch_name_of(dtype);
        if (!name.empty() && global == "torch " + std::string(name)) return dtype;
    }
    return std::nullopt;
}

std::optional<std::vector<std::int64_t>> integers_of(const Pickle& pickle, PickleId id) {
    PickleId tuple = id;  // torch.Size has one argument, a tuple or a list
    if (const PickleNode* size = pickle.arguments_of(id, "torch Size"); size != nullptr) {
        if (size->items.size() != 1) return std::nullopt;
        tuple = size->items[0];
    }
    const PickleNode& node = pickle.at(tuple);
    if (node.kind != PickleKind::Tuple && node.kind != PickleKind::List) return std::nullopt;
    std::vector<std::int64_t> values;
    for (const PickleId item : node.items) {
        if (!pickle.is(item, PickleKind::Int)) return std::nullopt;
        values.push_back(pickle.at(item).integer);
    }
    return values;
}

Result<void> check_torch_type(const tensor::TensorInfo& info) {
    if (*tensor::torch_name_of(info.dtype) != '\0') return {};
    return fail(
        ErrorCode::InvalidArgument,
        info.name + " is " + tensor::name_of(info.dtype) + ", a type that torch does not have",
        "choose another type, such as --dtype bf16");
}

namespace {

// Returns the name of the type's storage class, such as "FloatStorage"; nullptr if the type does
// not have such a class.
const char* storage_name_of(DType dtype) {
    for (const StorageRow& row : kStorages)
        if (row.dtype == dtype) return row.global + sizeof "torch";
    return nullptr;
}

}  // namespace

void write_tensor(PickleWriter& out, const tensor::TensorInfo& info, std::size_t key) {
    std::int64_t count = 1;
    for (const std::int64_t dim : info.shape) count *= dim;
    const char* const storage = storage_name_of(info.dtype);
    out.global("torch._utils", storage != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    out.tuple([&] {
        out.tuple([&] {
            out.word("storage");
            if (storage != nullptr)
                out.global("torch", storage);
            else
                out.global("torch.storage", "UntypedStorage");
            out.text(std::to_string(key));
            out.word("cpu");
            out.integer(storage != nullptr ? count : count * tensor::bits_of(info.dtype) / 8);
        });
        out.op(pickle_op::kPersistentId);
        out.integer(0);
        out.integers(info.shape);
        out.integers(tensor::row_major(info.shape));
        out.boolean(false);
        out.global("collections", "OrderedDict");
        out.op(pickle_op::kEmptyTuple);
        out.op(pickle_op::kReduce);
        if (storage == nullptr) out.global("torch", tensor::torch_name_of(info.dtype));
    });
    out.op(pickle_op::kReduce);
}

}  // namespace roll::formats
