#include "worker/parquet/rows.hpp"

#include <memory>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include "common/json.hpp"

namespace roll::parquet_rows {
namespace {

using arrow::Array;
using arrow::Type;

constexpr std::int64_t kRowsAtOnce = 1024;

// The reason why a value cannot be written.
struct NoJson {
    std::string reason;
};

OrderedJson value_of(const Array& array, std::int64_t row);

template <class Numbers>
OrderedJson number(const Array& array, std::int64_t row) {
    return static_cast<const Numbers&>(array).Value(row);
}

template <class Texts>
OrderedJson text(const Array& array, std::int64_t row) {
    return std::string(static_cast<const Texts&>(array).GetView(row));
}

template <class Lists>
OrderedJson items(const Array& array, std::int64_t row) {
    const auto& lists = static_cast<const Lists&>(array);
    OrderedJson all = OrderedJson::array();
    for (std::int64_t i = 0; i < lists.value_length(row); ++i)
        all.push_back(value_of(*lists.values(), lists.value_offset(row) + i));
    return all;
}

OrderedJson fields(const Array& array, std::int64_t row) {
    const auto& parts = static_cast<const arrow::StructArray&>(array);
    OrderedJson all = OrderedJson::object();
    for (int i = 0; i < parts.num_fields(); ++i) {
        const std::shared_ptr<Array> field = parts.field(i);
        if (!field->IsNull(row)) all[parts.type()->field(i)->name()] = value_of(*field, row);
    }
    return all;
}

OrderedJson entry(const Array& array, std::int64_t row) {
    const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
    return value_of(*coded.dictionary(), coded.GetValueIndex(row));
}

// Returns the text of a date, a time or a decimal.
OrderedJson scalar_text(const Array& array, std::int64_t row) {
    const auto scalar = array.GetScalar(row);
    if (!scalar.ok()) throw NoJson{scalar.status().ToString()};
    return (*scalar)->ToString();
}

OrderedJson value_of(const Array& array, std::int64_t row) {
    if (array.IsNull(row)) return nullptr;
    switch (array.type_id()) {
        case Type::NA: return nullptr;
        case Type::BOOL: return number<arrow::BooleanArray>(array, row);
        case Type::INT8: return number<arrow::Int8Array>(array, row);
        case Type::INT16: return number<arrow::Int16Array>(array, row);
        case Type::INT32: return number<arrow::Int32Array>(array, row);
        case Type::INT64: return number<arrow::Int64Array>(array, row);
        case Type::UINT8: return number<arrow::UInt8Array>(array, row);
        case Type::UINT16: return number<arrow::UInt16Array>(array, row);
        case Type::UINT32: return number<arrow::UInt32Array>(array, row);
        case Type::UINT64: return number<arrow::UInt64Array>(array, row);
        case Type::FLOAT: return number<arrow::FloatArray>(array, row);
        case Type::DOUBLE: return number<arrow::DoubleArray>(array, row);
        case Type::STRING: return text<arrow::StringArray>(array, row);
        case Type::LARGE_STRING: return text<arrow::LargeStringArray>(array, row);
        case Type::LIST: return items<arrow::ListArray>(array, row);
        case Type::LARGE_LIST: return items<arrow::LargeListArray>(array, row);
        case Type::FIXED_SIZE_LIST: return items<arrow::FixedSizeListArray>(array, row);
        case Type::STRUCT: return fields(array, row);
        case Type::DICTIONARY: return entry(array, row);
        case Type::DATE32:
        case Type::DATE64:
        case Type::TIME32:
        case Type::TIME64:
        case Type::TIMESTAMP:
        case Type::DECIMAL128:
        case Type::DECIMAL256: return scalar_text(array, row);
        default:
            throw NoJson{"a value of type " + array.type()->ToString() +
                         " cannot be written as JSON"};
    }
}

// Writes the rows of a batch.
arrow::Status write(const arrow::RecordBatch& batch, std::FILE* out) {
    for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
        OrderedJson line = OrderedJson::object();
        for (int i = 0; i < batch.num_columns(); ++i) {
            try {
                line[batch.column_name(i)] = value_of(*batch.column(i), row);
            } catch (const NoJson& none) {
                return arrow::Status::TypeError("column ", batch.column_name(i), ": ", none.reason);
            }
        }
        const std::string text =
            line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
        if (std::fwrite(text.data(), 1, text.size(), out) != text.size())
            return arrow::Status::IOError("cannot write the JSON lines");
    }
    return arrow::Status::OK();
}

arrow::Status write_all(const std::string& path, std::FILE* out) {
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path));
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file));
    ARROW_ASSIGN_OR_RAISE(const auto reader, builder.Build());
    reader->set_batch_size(kRowsAtOnce);
    ARROW_ASSIGN_OR_RAISE(const auto batches, reader->GetRecordBatchReader());
    for (;;) {
        std::shared_ptr<arrow::RecordBatch> batch;
        ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
        if (batch == nullptr) break;
        ARROW_RETURN_NOT_OK(write(*batch, out));
    }
    return std::fflush(out) == 0 ? arrow::Status::OK()
                                 : arrow::Status::IOError("cannot write the JSON lines");
}

}  // namespace

Result<void> write_rows(const std::string& path, std::FILE* out) {
    const arrow::Status done = write_all(path, out);
    if (done.ok()) return {};
    return fail(ErrorCode::InvalidArgument, path + ": " + done.message());
}

}  // namespace roll::parquet_rows
