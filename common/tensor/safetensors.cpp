#include "common/tensor/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "common/check.hpp"
#include "common/damage.hpp"
#include "common/json.hpp"
#include "common/tensor/output_file.hpp"

namespace roll::tensor {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::size_t kRankMax = 64;

tl::unexpected<Error> corrupt(std::string what) {
    return fail(ErrorCode::Corrupt, "safetensors: " + std::move(what), kCopyAgain);
}

// Counts the keys of a JSON text and limits its depth. The count reveals duplicate keys:
// nlohmann::json keeps only one of them, so the parsed objects then have fewer keys than the text.
// A parser callback of nlohmann::json could also find duplicates, but would take time quadratic in
// an object's size.
class KeyCounter : public nlohmann::json_sax<Json> {
  public:
    std::size_t keys() const { return keys_; }
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return ++depth_ <= kDepthMax; }
    bool key(string_t&) override { return ++keys_ > 0; }
    bool end_object() override { return --depth_ >= 0; }
    bool start_array(std::size_t) override { return ++depth_ <= kDepthMax; }
    bool end_array() override { return --depth_ >= 0; }
    bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
        return false;
    }

  private:
    static constexpr int kDepthMax = 4;
    int depth_ = 0;
    std::size_t keys_ = 0;
};

Result<Json> parse_header_json(std::string_view text) {
    KeyCounter counter;
    if (!Json::sax_parse(text, &counter))
        return corrupt("the header is not JSON, or is nested too deeply");
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return corrupt("the header is not an object");
    std::size_t keys = json.size();
    for (const Json& value : json)
        if (value.is_object()) keys += value.size();
    if (keys != counter.keys()) return corrupt("the header has a duplicate name");
    return json;
}

Result<Metadata> parse_metadata(const Json& json) {
    if (!json.is_object()) return corrupt("__metadata__ is not an object");
    Metadata metadata;
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) return corrupt("__metadata__ \"" + key + "\" is not a string");
        metadata[key] = value.get<std::string>();
    }
    return metadata;
}

Result<std::int64_t> parse_size(const Json& json, const std::string& name) {
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > (std::uint64_t{1} << 62U))
        return corrupt("tensor \"" + name + "\" has a size that is not a whole number");
    return json.get<std::int64_t>();
}

Result<SafetensorsEntry> parse_entry(const std::string& name, const Json& json) {
    if (!json.is_object() || json.size() != 3 || !json.contains("dtype") ||
        !json.contains("shape") || !json.contains("data_offsets"))
        return corrupt("tensor \"" + name + "\" must have dtype, shape and data_offsets only");
    const Json& dtype = json["dtype"];
    const Json& shape = json["shape"];
    const Json& offsets = json["data_offsets"];
    const auto known = dtype.is_string() ? parse_dtype(dtype.get<std::string>()) : std::nullopt;
    if (!known)
        return fail(ErrorCode::Corrupt, "safetensors: tensor \"" + name + "\" has the dtype " +
                                            dtype.dump() + ", which Roll does not read");
    if (!shape.is_array() || shape.size() > kRankMax)
        return corrupt("tensor \"" + name + "\" has no valid shape");
    if (!offsets.is_array() || offsets.size() != 2)
        return corrupt("tensor \"" + name + "\" has no valid data_offsets");
    SafetensorsEntry entry{{name, *known, {}}, 0, 0};
    for (const Json& dim : shape) {
        ROLL_TRY(const std::int64_t size, parse_size(dim, name));
        entry.info.shape.push_back(size);
    }
    ROLL_TRY(entry.begin, parse_size(offsets[0], name));
    ROLL_TRY(entry.end, parse_size(offsets[1], name));
    return entry;
}

// Sorts the entries by offset, checks that they fill the file, and adds `data_begin` to their
// offsets.
Result<void> place_entries(SafetensorsHeader& header, std::int64_t data_begin) {
    std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
        return std::tie(a.begin, a.end, a.info.name) < std::tie(b.begin, b.end, b.info.name);
    });
    std::int64_t next = 0;
    for (SafetensorsEntry& entry : header.entries) {
        const std::string& name = entry.info.name;
        if (entry.begin != next || entry.end < entry.begin)
            return corrupt("tensor \"" + name + "\" does not start where the previous tensor ends");
        ROLL_TRY(const std::int64_t bytes, byte_count(entry.info.dtype, entry.info.shape));
        if (entry.end - entry.begin != bytes)
            return corrupt("tensor \"" + name + "\" needs " + std::to_string(bytes) +
                           " bytes, but its data_offsets span " +
                           std::to_string(entry.end - entry.begin));
        next = entry.end;
        entry.begin += data_begin;
        entry.end += data_begin;
    }
    if (header.file_size - data_begin != next)
        return corrupt("the tensors end at byte " + std::to_string(next + data_begin) +
                       ", but the file ends at byte " + std::to_string(header.file_size));
    return {};
}

std::string quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the header's JSON. Writes the text directly, because an ordered JSON object takes time
// quadratic in its number of keys.
std::string header_text(const std::vector<SafetensorsEntry>& entries, const Metadata& metadata) {
    std::string text = "{";
    if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump(-1, ' ', false) + ",";
    for (const SafetensorsEntry& entry : entries) {
        text += quoted(entry.info.name) + ":{\"dtype\":\"" + name_of(entry.info.dtype) +
                "\",\"shape\":" + Json(entry.info.shape).dump() + ",\"data_offsets\":[" +
                std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]},";
    }
    if (text.back() == ',') text.pop_back();
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file) {
    const auto file_size = static_cast<std::int64_t>(file.size());
    if (file_size < kLengthBytes) return corrupt("the file is shorter than 8 bytes");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), kLengthBytes);
    if (length > static_cast<std::uint64_t>(kSafetensorsHeaderMax))
        return corrupt("the header of " + std::to_string(length) + " bytes exceeds the limit of " +
                       std::to_string(kSafetensorsHeaderMax));
    if (static_cast<std::int64_t>(length) > file_size - kLengthBytes)
        return corrupt("the header of " + std::to_string(length) + " bytes is cut off");
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
    if (text.empty() || text.front() != '{') return corrupt("the header does not start with {");
    ROLL_TRY(const Json json, parse_header_json(text));

    SafetensorsHeader header;
    header.file_size = file_size;
    for (const auto& [name, value] : json.items()) {
        if (name == "__metadata__") {
            ROLL_TRY(header.metadata, parse_metadata(value));
        } else {
            ROLL_TRY(SafetensorsEntry entry, parse_entry(name, value));
            header.entries.push_back(std::move(entry));
        }
    }
    ROLL_TRY_VOID(place_entries(header, kLengthBytes + static_cast<std::int64_t>(length)));
    return header;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsHeader header)
    : file_(std::move(file)),
      header_(std::move(header)) {
    for (const SafetensorsEntry& entry : header_.entries)
        tensors_.push_back(
            {entry.info, file_.bytes().subspan(entry.begin, entry.end - entry.begin)});
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
    ROLL_TRY(MappedFile file, MappedFile::open(path));
    auto header = parse_safetensors(file.bytes());
    if (!header) return fail(header.error().code, path.string() + ": " + header.error().message);
    return SafetensorsFile(std::move(file), *std::move(header));
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const auto& view) { return view.info.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
}

Result<SafetensorsLayout> layout_safetensors(std::vector<TensorInfo> tensors,
                                             const Metadata& metadata) {
    std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
    });
    std::set<std::string_view> names;
    SafetensorsLayout layout;
    std::int64_t next = 0;
    for (TensorInfo& info : tensors) {
        ROLL_TRY(const std::int64_t bytes, byte_count(info.dtype, info.shape));
        layout.header.entries.push_back({std::move(info), next, next + bytes});
        next += bytes;
    }
    for (const SafetensorsEntry& entry : layout.header.entries) {
        if (!names.insert(entry.info.name).second || entry.info.name == "__metadata__")
            return fail(ErrorCode::InvalidArgument, "two tensors are named " + entry.info.name);
    }
    const std::string text = header_text(layout.header.entries, metadata);
    if (static_cast<std::int64_t>(text.size()) > kSafetensorsHeaderMax)
        return fail(ErrorCode::InvalidArgument,
                    "the safetensors header would have " + std::to_string(text.size()) +
                        " bytes; allowed: at most " + std::to_string(kSafetensorsHeaderMax));

    const std::uint64_t length = text.size();
    layout.prefix.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
    layout.prefix += text;
    const auto data_begin = static_cast<std::int64_t>(layout.prefix.size());
    for (SafetensorsEntry& entry : layout.header.entries) {
        entry.begin += data_begin;
        entry.end += data_begin;
    }
    layout.header.metadata = metadata;
    layout.header.file_size = data_begin + next;
    return layout;
}

Result<void> write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                               const Metadata& metadata) {
    std::vector<TensorInfo> infos;
    std::map<std::string_view, std::span<const std::byte>> bytes;
    for (const TensorView& tensor : tensors) {
        infos.push_back(tensor.info);
        bytes[tensor.info.name] = tensor.bytes;
    }
    ROLL_TRY(const SafetensorsLayout layout, layout_safetensors(std::move(infos), metadata));
    ROLL_TRY(OutputFile file, OutputFile::create(path));
    ROLL_TRY_VOID(file.write_at(0, as_bytes(layout.prefix)));
    for (const SafetensorsEntry& entry : layout.header.entries) {
        const auto content = bytes.at(entry.info.name);
        ROLL_CHECK(static_cast<std::int64_t>(content.size()) == entry.end - entry.begin);
        ROLL_TRY_VOID(file.write_at(entry.begin, content));
    }
    return file.finish();
}

}  // namespace roll::tensor
