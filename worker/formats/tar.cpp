#include "worker/formats/tar.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "common/files.hpp"
#include "common/number.hpp"
#include "common/tensor/output_file.hpp"

namespace roll::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;

tl::unexpected<Error> corrupt_tar(const std::string& what) {
    return fail(ErrorCode::Corrupt, "tar: " + what);
}

std::string text_field(std::span<const std::byte> block, std::size_t at, std::size_t size) {
    const auto* const begin = reinterpret_cast<const char*>(block.data()) + at;
    const std::string_view field(begin, size);
    return std::string(field.substr(0, field.find('\0')));
}

// Reads a header's size field. The size is in octal digits or, if it is 8 GiB or more, a binary
// number after the byte 0x80.
std::optional<std::int64_t> size_field(std::span<const std::byte> block) {
    const auto first = static_cast<unsigned char>(block[124]);
    std::int64_t value = 0;
    if (first == 0x80) {
        for (std::size_t i = 128; i < 136; ++i)
            value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8U |
                                              static_cast<unsigned char>(block[i]));
        return value < 0 ? std::nullopt : std::optional(value);
    }
    std::string digits = text_field(block, 124, 12);
    while (!digits.empty() && (digits.back() == ' ')) digits.pop_back();
    const auto octal = parse_number<std::int64_t>(digits, 8);
    return octal && *octal >= 0 ? octal : std::nullopt;
}

// Fields that a pax or GNU header sets for the next member. They override the fields of the
// member's own header.
struct Said {
    std::string name;
    std::optional<std::int64_t> size;
};

// Reads the records of a pax header, such as "27 path=some/long/name\n", where 27 is the record's
// length.
Result<void> read_pax(std::string_view records, Said& said) {
    while (!records.empty()) {
        const std::size_t space = records.find(' ');
        const auto length = parse_number<std::size_t>(records.substr(0, space));
        if (!length || *length < space + 2 || *length > records.size())
            return corrupt_tar("a broken pax header");
        const std::string_view record = records.substr(space + 1, *length - space - 2);
        records.remove_prefix(*length);
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) return corrupt_tar("a broken pax header");
        const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
        if (key == "path") said.name = value;
        if (key != "size") continue;
        said.size = parse_number<std::int64_t>(value);
        if (!said.size || *said.size < 0)
            return corrupt_tar("a pax header has an invalid size; copy the file again");
    }
    return {};
}

std::string name_in(std::span<const std::byte> block) {
    const std::string prefix = text_field(block, 345, 155);
    return (prefix.empty() ? "" : prefix + "/") + text_field(block, 0, 100);
}

std::string without_dot(std::string name) {
    while (name.starts_with("./")) name.erase(0, 2);
    return name;
}

// Writing -------------------------------------------------------------------------------------

constexpr std::size_t kWindow = 4U << 20U;

void put_octal(std::string& block, std::size_t at, std::size_t digits, std::uint64_t value) {
    block.replace(at, digits, fmt::format("{:0{}o}", value, digits));
}

// Writes the size in the form that size_field() reads.
void put_size(std::string& block, std::uint64_t size) {
    if (size < (std::uint64_t{1} << 33U)) return put_octal(block, 124, 11, size);
    block[124] = '\x80';
    for (std::size_t i = 0; i < 8; ++i) block[135 - i] = static_cast<char>(size >> (8 * i) & 0xFFU);
}

Result<std::string> header_of(const std::string& name, std::uint64_t size) {
    if (name.size() > 100)
        return fail(
            ErrorCode::InvalidArgument,
            "the name " + name + " is too long for a tar archive; allowed: at most 100 bytes");
    std::string block(kBlock, '\0');
    block.replace(0, name.size(), name);
    put_octal(block, 100, 7, 0644);
    put_octal(block, 108, 7, 0);  // id of the owner; the id of the group follows
    put_octal(block, 116, 7, 0);
    put_size(block, size);
    put_octal(block, 136, 11, 0);  // modification time
    block[156] = '0';
    block.replace(257, 8,
                  std::string("ustar\0"
                              "00",
                              8));
    block.replace(148, 8, 8, ' ');  // the checksum is computed with spaces in its own field
    std::uint64_t sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    put_octal(block, 148, 6, sum);
    block[154] = '\0';
    return block;
}

Result<std::vector<std::string>> files_below(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(directory, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error))
        if (entry->is_regular_file(error))
            names.push_back(entry->path().lexically_relative(directory).string());
    if (error) return fail(ErrorCode::Failed, directory.string() + ": " + error.message());
    std::sort(names.begin(), names.end());
    return names;
}

// Appends a file as a member at offset `at`. Returns the offset after the member.
Result<std::int64_t> append(tensor::OutputFile& out, std::int64_t at, const fs::path& file,
                            const std::string& name, const std::function<bool()>& stopped) {
    ROLL_TRY(const MappedFile content, MappedFile::open(file));
    std::span<const std::byte> left = content.bytes();
    ROLL_TRY(const std::string header, header_of("./" + name, left.size()));
    ROLL_TRY_VOID(out.write_at(at, tensor::as_bytes(header)));
    at += static_cast<std::int64_t>(kBlock);
    while (!left.empty()) {
        if (stopped()) return fail(ErrorCode::Unavailable, "stopped");
        const auto window = left.first(std::min(left.size(), kWindow));
        ROLL_TRY_VOID(out.write_at(at, window));
        at += static_cast<std::int64_t>(window.size());
        left = left.subspan(window.size());
    }
    const auto blocks = (content.bytes().size() + kBlock - 1) / kBlock * kBlock;
    return at + static_cast<std::int64_t>(blocks - content.bytes().size());
}

}  // namespace

Result<std::vector<TarMember>> parse_tar(std::span<const std::byte> archive) {
    if (archive.size() >= 2 && archive[0] == std::byte{0x1F} && archive[1] == std::byte{0x8B})
        return fail(ErrorCode::InvalidArgument, "the archive is compressed",
                    "unpack it (tar xzf) and convert the directory");
    std::vector<TarMember> members;
    Said said;
    std::size_t at = 0;
    while (at + kBlock <= archive.size()) {
        const auto block = archive.subspan(at, kBlock);
        if (block[0] == std::byte{0}) return members;
        const char type = static_cast<char>(block[156]);
        const bool speaks = type == 'x' || type == 'L' || type == 'K' || type == 'g';
        const auto size = said.size && !speaks ? said.size : size_field(block);
        if (text_field(block, 257, 5) != "ustar" || !size)
            return corrupt_tar("a member's header is damaged; copy the file again");
        at += kBlock;
        if (*size > static_cast<std::int64_t>(archive.size() - at))
            return corrupt_tar("a member ends beyond the end of the file; copy the file again");
        const auto content = archive.subspan(at, static_cast<std::size_t>(*size));
        const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
        if (type == 'L') said.name = text.substr(0, text.find('\0'));
        if (type == 'x') ROLL_TRY_VOID(read_pax(text, said));
        if (type == '0' || type == '\0') {
            const std::string name = said.name.empty() ? name_in(block) : said.name;
            members.push_back({without_dot(name), static_cast<std::int64_t>(at), *size});
        }
        if (!speaks) said = {};
        at += (static_cast<std::size_t>(*size) + kBlock - 1) / kBlock * kBlock;
    }
    return corrupt_tar("the end mark is missing; copy the file again");
}

Result<void> pack_tar(const fs::path& directory, const std::string& archive,
                      const std::function<bool()>& stopped) {
    ROLL_TRY(const std::vector<std::string> names, files_below(directory));
    ROLL_TRY(tensor::OutputFile out, tensor::OutputFile::create(directory / archive));
    std::int64_t at = 0;
    for (const std::string& name : names) {
        ROLL_TRY(at, append(out, at, directory / name, name, stopped));
        std::error_code error;
        if (!fs::remove(directory / name, error))
            return fail(ErrorCode::Failed, (directory / name).string() + ": " + error.message());
    }
    const std::string end(2 * kBlock, '\0');
    ROLL_TRY_VOID(out.write_at(at, tensor::as_bytes(end)));
    return out.finish();
}

}  // namespace roll::formats
