#include "worker/formats/zip.hpp"

#include <cstring>
#include <set>

#include <isa-l/crc.h>

#include "common/check.hpp"

namespace roll::formats {
namespace {

constexpr std::uint32_t kLocalMagic = 0x04034B50;
constexpr std::uint32_t kCentralMagic = 0x02014B50;
constexpr std::uint32_t kEndMagic = 0x06054B50;
constexpr std::uint32_t kEnd64Magic = 0x06064B50;
constexpr std::uint32_t kLocator64Magic = 0x07064B50;
constexpr std::int64_t kLocalBytes = 30;
constexpr std::int64_t kCentralBytes = 46;
constexpr std::int64_t kEndBytes = 22;
constexpr std::int64_t kCommentMax = 65535;
constexpr std::int64_t kAlignment = 64;
constexpr std::uint32_t kMax32 = 0xFFFFFFFF;

tl::unexpected<Error> corrupt_zip(std::string what) {
    return fail(ErrorCode::Corrupt, "zip: " + std::move(what));
}

// Reads little-endian fields with range checks.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    bool has(std::int64_t at, std::int64_t count) const {
        const auto size = static_cast<std::int64_t>(bytes_.size());
        return at >= 0 && count >= 0 && at <= size && count <= size - at;
    }
    template <class T>
    T get(std::int64_t at) const {
        T value = 0;
        ROLL_CHECK(has(at, sizeof value));
        std::memcpy(&value, bytes_.data() + at, sizeof value);
        return value;
    }
    std::string text(std::int64_t at, std::int64_t count) const {
        ROLL_CHECK(has(at, count));
        return {reinterpret_cast<const char*>(bytes_.data()) + at, static_cast<std::size_t>(count)};
    }
    std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

  private:
    std::span<const std::byte> bytes_;
};

struct Directory {
    std::int64_t begin = 0;
    std::int64_t size = 0;
    std::int64_t count = 0;
};

// Returns the value as a signed number. A value that no file size can reach becomes -1 and so fails
// every range check.
std::int64_t as_signed(std::uint64_t value) {
    return value > (std::uint64_t{1} << 62U) ? -1 : static_cast<std::int64_t>(value);
}

Result<Directory> find_directory(const Reader& in) {
    std::int64_t end = in.size() - kEndBytes;
    const std::int64_t lowest = std::max<std::int64_t>(0, end - kCommentMax);
    while (end >= lowest && in.get<std::uint32_t>(end) != kEndMagic) --end;
    if (end < lowest) return corrupt_zip("the end of the central directory is missing");
    Directory directory{in.get<std::uint32_t>(end + 16), in.get<std::uint32_t>(end + 12),
                        in.get<std::uint16_t>(end + 10)};
    const std::int64_t locator = end - 20;
    if (in.has(locator, 20) && in.get<std::uint32_t>(locator) == kLocator64Magic) {
        const std::int64_t end64 = as_signed(in.get<std::uint64_t>(locator + 8));
        if (!in.has(end64, 56) || in.get<std::uint32_t>(end64) != kEnd64Magic)
            return corrupt_zip("the zip64 end of the central directory is missing");
        directory = {as_signed(in.get<std::uint64_t>(end64 + 48)),
                     as_signed(in.get<std::uint64_t>(end64 + 40)),
                     as_signed(in.get<std::uint64_t>(end64 + 32))};
    }
    if (!in.has(directory.begin, directory.size) || directory.count < 0 ||
        directory.count > directory.size / kCentralBytes)
        return corrupt_zip("the central directory has an impossible size or place");
    return directory;
}

// Reads the zip64 extra field, which has the values of the header fields that are too small to hold
// them.
bool read_zip64(const Reader& in, std::int64_t extra, std::int64_t extra_size, ZipMember& member,
                std::int64_t& stored_size, std::int64_t& header) {
    const std::int64_t end = extra + extra_size;
    while (extra + 4 <= end) {
        const std::int64_t id = in.get<std::uint16_t>(extra);
        const std::int64_t size = in.get<std::uint16_t>(extra + 2);
        std::int64_t at = extra + 4;
        extra = at + size;
        if (extra > end) return false;
        if (id != 1) continue;
        for (std::int64_t* field : {&member.size, &stored_size, &header}) {
            if (*field != kMax32) continue;
            if (at + 8 > extra) return false;
            *field = as_signed(in.get<std::uint64_t>(at));
            at += 8;
        }
    }
    return true;
}

Result<ZipMember> read_member(const Reader& in, std::int64_t& at, std::int64_t end) {
    if (at + kCentralBytes > end || in.get<std::uint32_t>(at) != kCentralMagic)
        return corrupt_zip("the central directory is broken");
    const std::int64_t name_size = in.get<std::uint16_t>(at + 28);
    const std::int64_t extra_size = in.get<std::uint16_t>(at + 30);
    const std::int64_t comment_size = in.get<std::uint16_t>(at + 32);
    if (at + kCentralBytes + name_size + extra_size + comment_size > end)
        return corrupt_zip("the central directory is broken");
    ZipMember member;
    member.name = in.text(at + kCentralBytes, name_size);
    member.crc = in.get<std::uint32_t>(at + 16);
    member.size = in.get<std::uint32_t>(at + 24);
    std::int64_t stored_size = in.get<std::uint32_t>(at + 20);
    std::int64_t header = in.get<std::uint32_t>(at + 42);
    if (!read_zip64(in, at + kCentralBytes + name_size, extra_size, member, stored_size, header))
        return corrupt_zip("member " + member.name + " has a broken zip64 field");
    if (in.get<std::uint16_t>(at + 10) != 0 || (in.get<std::uint16_t>(at + 8) & 1U) != 0 ||
        stored_size != member.size)
        return corrupt_zip("member " + member.name +
                           " is compressed or encrypted, which Roll does not read");
    if (!in.has(header, kLocalBytes) || in.get<std::uint32_t>(header) != kLocalMagic)
        return corrupt_zip("member " + member.name + " has no header");
    member.begin = header + kLocalBytes + in.get<std::uint16_t>(header + 26) +
                   in.get<std::uint16_t>(header + 28);
    if (!in.has(member.begin, member.size))
        return corrupt_zip("member " + member.name + " ends beyond the end of the file");
    at += kCentralBytes + name_size + extra_size + comment_size;
    return member;
}

// Writing ---------------------------------------------------------------------------------------

template <class T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool is_big(const ZipMember& member) { return member.size >= kMax32; }

std::uint32_t saturated(std::int64_t value) {
    return value >= kMax32 ? kMax32 : static_cast<std::uint32_t>(value);
}

// Writes the fields that local and central headers share, after the signature.
void put_common(std::string& out, const ZipMember& member) {
    put<std::uint16_t>(out, 45);  // version needed: zip64
    put<std::uint16_t>(out, 0);   // flags: none are set
    put<std::uint16_t>(out, 0);   // compression method: none
    put<std::uint32_t>(out, 0);   // DOS time and date
    put<std::uint32_t>(out, member.crc);
    put<std::uint32_t>(out, saturated(member.size));
    put<std::uint32_t>(out, saturated(member.size));
    put<std::uint16_t>(out, static_cast<std::uint16_t>(member.name.size()));
}

std::string local_header(const ZipMember& member, std::int64_t header) {
    std::string extra;
    if (is_big(member)) {
        put<std::uint16_t>(extra, 1);
        put<std::uint16_t>(extra, 16);
        put<std::int64_t>(extra, member.size);
        put<std::int64_t>(extra, member.size);
    }
    // Pads the header with an extra field, as torch does.
    const auto name_size = static_cast<std::int64_t>(member.name.size());
    const std::int64_t pad = member.begin - header - kLocalBytes - name_size -
                             static_cast<std::int64_t>(extra.size()) - 4;
    put<std::uint16_t>(extra, 0x4246);  // id of the extra field: the characters "FB"
    put<std::uint16_t>(extra, static_cast<std::uint16_t>(pad));
    extra.append(static_cast<std::size_t>(pad), 'Z');
    std::string out;
    put(out, kLocalMagic);
    put_common(out, member);
    put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
    return out + member.name + extra;
}

std::string central_header(const ZipMember& member, std::int64_t header) {
    std::string extra;
    if (is_big(member)) {
        put<std::int64_t>(extra, member.size);
        put<std::int64_t>(extra, member.size);
    }
    if (header >= kMax32) put<std::int64_t>(extra, header);
    std::string out;
    put(out, kCentralMagic);
    put<std::uint16_t>(out, 45);  // version made by
    put_common(out, member);
    put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.empty() ? 0 : extra.size() + 4));
    put<std::uint16_t>(out, 0);  // length of the comment
    put<std::uint16_t>(out, 0);  // number of this disk
    put<std::uint16_t>(out, 0);  // internal attributes
    put<std::uint32_t>(out, 0);
    put<std::uint32_t>(out, saturated(header));
    out += member.name;
    if (!extra.empty()) {
        put<std::uint16_t>(out, 1);
        put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
        out += extra;
    }
    return out;
}

std::string end_of_directory(const Directory& directory) {
    std::string out;
    if (directory.begin >= kMax32 || directory.count >= 0xFFFF) {
        put(out, kEnd64Magic);
        put<std::uint64_t>(out, 44);
        put<std::uint16_t>(out, 45);
        put<std::uint16_t>(out, 45);
        put<std::uint64_t>(out, 0);  // numbers of this disk and of the directory's disk
        put<std::int64_t>(out, directory.count);
        put<std::int64_t>(out, directory.count);
        put<std::int64_t>(out, directory.size);
        put<std::int64_t>(out, directory.begin);
        put(out, kLocator64Magic);
        put<std::uint32_t>(out, 0);
        put<std::int64_t>(out, directory.begin + directory.size);
        put<std::uint32_t>(out, 1);
    }
    const auto count = static_cast<std::uint16_t>(std::min<std::int64_t>(directory.count, 0xFFFF));
    put(out, kEndMagic);
    put<std::uint32_t>(out, 0);  // numbers of this disk and of the directory's disk
    put<std::uint16_t>(out, count);
    put<std::uint16_t>(out, count);
    put<std::uint32_t>(out, saturated(directory.size));
    put<std::uint32_t>(out, saturated(directory.begin));
    put<std::uint16_t>(out, 0);
    return out;
}

}  // namespace

Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> archive) {
    const Reader in(archive);
    ROLL_TRY(const Directory directory, find_directory(in));
    std::vector<ZipMember> members;
    std::set<std::string> names;
    std::int64_t at = directory.begin;
    for (std::int64_t i = 0; i < directory.count; ++i) {
        ROLL_TRY(ZipMember member, read_member(in, at, directory.begin + directory.size));
        if (!names.insert(member.name).second) return corrupt_zip("two members " + member.name);
        members.push_back(std::move(member));
    }
    return members;
}

std::uint32_t crc32_of(std::uint32_t crc, std::span<const std::byte> bytes) {
    return ::crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()),
                             bytes.size());
}

void ZipLayout::add(std::string name, std::int64_t size) {
    ROLL_CHECK(size >= 0 && name.size() < 1024);
    ZipMember member{std::move(name), 0, size, 0};
    const std::int64_t smallest = end_ + kLocalBytes + 4 +
                                  static_cast<std::int64_t>(member.name.size()) +
                                  (is_big(member) ? 20 : 0);
    member.begin = (smallest + kAlignment - 1) / kAlignment * kAlignment;
    headers_.push_back(end_);
    end_ = member.begin + size;
    members_.push_back(std::move(member));
}

std::string ZipLayout::header(std::size_t member) const {
    return local_header(members_[member], headers_[member]);
}

std::string ZipLayout::directory() const {
    std::string central;
    for (std::size_t i = 0; i < members_.size(); ++i)
        central += central_header(members_[i], headers_[i]);
    const Directory directory{end_, static_cast<std::int64_t>(central.size()),
                              static_cast<std::int64_t>(members_.size())};
    return central + end_of_directory(directory);
}

std::int64_t ZipLayout::size() const {
    return end_ + static_cast<std::int64_t>(directory().size());
}

Result<void> ZipLayout::write_headers(tensor::OutputFile& file) const {
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const std::string local = header(i);
        ROLL_TRY_VOID(file.write_at(headers_[i], tensor::as_bytes(local)));
    }
    return file.write_at(end_, tensor::as_bytes(directory()));
}

}  // namespace roll::formats
