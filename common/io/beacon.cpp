#include "common/io/beacon.hpp"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/io/descriptor.hpp"
#include "common/json.hpp"

namespace roll::io {
namespace {

constexpr std::size_t kChecksumBytes = 16;
constexpr std::size_t kTextBytes = kBeaconRecordBytes - kChecksumBytes - 1;
constexpr std::size_t kDirectBytes = 4096;  // O_DIRECT requires aligned memory and whole blocks

tl::unexpected<Error> fail_errno(const char* what, const std::filesystem::path& path) {
    const int number = errno;
    return fail(number == ENOENT ? ErrorCode::NotFound : ErrorCode::Failed,
                std::string(what) + " beacon " + path.string() + ": " +
                    std::generic_category().message(number));
}

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// Opens the file with O_DIRECT, which bypasses the cache. If the file system does not support
// O_DIRECT, opens the file without it.
Descriptor open_fresh(const std::filesystem::path& path) {
    const int flags = O_RDONLY | O_CLOEXEC;
    Descriptor direct(::open(path.c_str(), flags | O_DIRECT));
    if (direct || errno != EINVAL) return direct;
    return Descriptor(::open(path.c_str(), flags));
}

void force_attributes(int fd) {
    struct statx info {};
    ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_MTIME | STATX_SIZE, &info);
}

}  // namespace

Result<std::string> encode_beacon(const Beacon& beacon) {
    Json json = {{"roll", "beacon/1"},
                 {"cluster", beacon.cluster},
                 {"incarnation", beacon.incarnation},
                 {"nonce", beacon.nonce},
                 {"host", beacon.host},
                 {"endpoint", beacon.endpoint},
                 {"counter", beacon.counter}};
    if (!beacon.home.empty()) json["home"] = beacon.home;
    if (beacon.patience_ms > 0) json["patience_ms"] = beacon.patience_ms;
    std::string record = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (record.size() > kTextBytes)
        return fail(ErrorCode::InvalidArgument,
                    "host and endpoint are too long for the record of the beacon file, which has " +
                        std::to_string(kBeaconRecordBytes) + " bytes");
    record.resize(kTextBytes, ' ');
    record += to_hex(hash64(std::string_view(record)));
    record += '\n';
    return record;
}

Result<Beacon> decode_beacon(std::string_view record) {
    if (record.size() != kBeaconRecordBytes || record.back() != '\n')
        return fail(ErrorCode::Corrupt, "the record of the beacon file is incomplete");
    const std::string_view text = record.substr(0, kTextBytes);
    if (record.substr(kTextBytes, kChecksumBytes) != to_hex(hash64(text)))
        return fail(ErrorCode::Corrupt,
                    "the record of the beacon file is damaged: its checksum does not match");
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader r(json, "beacon");
    Beacon beacon;
    beacon.cluster = r.get<std::string>("cluster");
    beacon.incarnation = r.get<std::uint64_t>("incarnation");
    beacon.nonce = r.get<std::string>("nonce");
    beacon.host = r.get<std::string>("host");
    beacon.endpoint = r.get<std::string>("endpoint");
    beacon.home = r.get_or<std::string>("home", "");
    beacon.counter = r.get<std::uint64_t>("counter");
    beacon.patience_ms = r.get_or<std::int64_t>("patience_ms", 0);
    ROLL_TRY_VOID(r.finish_lenient());
    return beacon;
}

Result<Beacon> newest_beacon(std::string_view file) {
    std::optional<Beacon> newest;
    for (std::size_t at = 0; at < kBeaconFileBytes && at < file.size(); at += kBeaconRecordBytes) {
        auto beacon = decode_beacon(file.substr(at, kBeaconRecordBytes));
        if (!beacon) continue;
        if (!newest || std::tie(newest->incarnation, newest->counter) <
                           std::tie(beacon->incarnation, beacon->counter))
            newest = *std::move(beacon);
    }
    if (!newest) return fail(ErrorCode::Corrupt, "the beacon file has no readable record");
    return *std::move(newest);
}

Result<void> write_beacon(const std::filesystem::path& path, const Beacon& beacon) {
    ROLL_TRY(const std::string record, encode_beacon(beacon));
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file) return fail_errno("cannot open", path);
    const auto offset = static_cast<off_t>(beacon_offset(beacon.counter));
    const ssize_t written = ::pwrite(file.get(), record.data(), record.size(), offset);
    if (written < 0) return fail_errno("cannot write", path);
    if (static_cast<std::size_t>(written) != record.size())
        return fail(ErrorCode::Failed,
                    "cannot write a whole record to the beacon file " + path.string());
    if (::fsync(file.get()) != 0) return fail_errno("cannot sync", path);
    return {};
}

Result<Beacon> read_beacon(const std::filesystem::path& path) {
    const Descriptor file = open_fresh(path);
    if (!file) return fail_errno("cannot open", path);
    force_attributes(file.get());
    const std::unique_ptr<void, Free> memory(std::aligned_alloc(kDirectBytes, kDirectBytes));
    const ssize_t n = ::pread(file.get(), memory.get(), kDirectBytes, 0);
    if (n < 0) return fail_errno("cannot read", path);
    return newest_beacon({static_cast<const char*>(memory.get()), static_cast<std::size_t>(n)});
}

}  // namespace roll::io
