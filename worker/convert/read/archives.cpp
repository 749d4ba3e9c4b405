#include "worker/convert/read/archives.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/damage.hpp"
#include "common/files.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/checkpoint/optimizer_index.hpp"
#include "worker/convert/plan/rows.hpp"
#include "worker/convert/read/dist.hpp"
#include "worker/convert/read/state_info.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/mca.hpp"
#include "worker/formats/nemo.hpp"
#include "worker/formats/tar.hpp"
#include "worker/formats/zip.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

// A torch archive: a whole file, or one of several archives in a file.
struct Archive {
    std::string where;  // path of the archive, for messages
    Bytes bytes;
};

struct Extent {
    std::string name;
    std::int64_t begin = 0;
    std::int64_t size = 0;
};

bool is_zip(Bytes bytes) {
    return bytes.size() >= 4 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

Bytes part_of(Bytes bytes, std::int64_t begin, std::int64_t size) {
    return bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
}

class Checker {
  public:
    Checker(const std::function<bool()>& stopped, Share share) : stopped_(stopped), share_(share) {}

    // Checks a file. If `extents` is null, the file is one archive. Otherwise, the file has one
    // archive in each extent.
    Result<void> check_file(const fs::path& path, const std::vector<Extent>* extents = nullptr) {
        const auto file = MappedFile::open(path);
        if (!file) return fail(file.error().code, file.error().message, kCopyAgain);
        if (extents == nullptr) return check_next({path.string(), file->bytes()});
        const auto total = static_cast<std::int64_t>(file->bytes().size());
        for (const Extent& extent : *extents) {
            const std::string where = path.string() + ": " + extent.name;
            if (extent.begin > total || extent.size > total - extent.begin)
                return fail(ErrorCode::Corrupt, where + " lies beyond the end of the file",
                            kCopyAgain);
            ROLL_TRY_VOID(check_next({where, part_of(file->bytes(), extent.begin, extent.size)}));
        }
        return {};
    }

    Result<void> check_tar(const fs::path& path) {
        ROLL_TRY(const MappedFile file, MappedFile::open(path));
        ROLL_TRY(const auto members, formats::parse_tar(file.bytes()));
        for (const formats::TarMember& member : members)
            ROLL_TRY_VOID(check_next({path.string() + ": " + member.name,
                                      part_of(file.bytes(), member.begin, member.size)}));
        return {};
    }

  private:
    Result<void> check_next(const Archive& archive) {
        if (!share_.has(count_++) || !is_zip(archive.bytes)) return {};
        const auto members = formats::parse_zip(archive.bytes);
        if (!members)
            return fail(members.error().code, archive.where + ": " + members.error().message,
                        kCopyAgain);
        for (const formats::ZipMember& member : *members) {
            if (member.crc == 0) continue;
            ROLL_TRY(const std::uint32_t crc,
                     crc_of(part_of(archive.bytes, member.begin, member.size)));
            if (crc != member.crc)
                return fail(
                    ErrorCode::Corrupt,
                    archive.where + ": the bytes of " + member.name + " do not match their CRC-32",
                    kCopyAgain);
        }
        return {};
    }

    // Returns the CRC-32 of the bytes. Reads them window by window, so that only a small part of a
    // large file is in memory.
    Result<std::uint32_t> crc_of(Bytes bytes) const {
        std::uint32_t crc = 0;
        while (!bytes.empty()) {
            if (stopped_ && stopped_()) return fail(ErrorCode::Unavailable, "stopped");
            const Bytes window =
                bytes.first(std::min(bytes.size(), static_cast<std::size_t>(kWindowBytes)));
            crc = formats::crc32_of(crc, window);
            release_pages(window);
            bytes = bytes.subspan(window.size());
        }
        return crc;
    }

    const std::function<bool()>& stopped_;
    Share share_;
    std::size_t count_ = 0;
};

bool is_torch_name(const fs::path& path) {
    const fs::path kind = path.extension();
    return kind == ".pt" || kind == ".pth" || kind == ".bin" || kind == ".ckpt";
}

// Returns true if the file of this name has the optimizer's state of a rank.
bool is_optimizer_name(const fs::path& path) {
    const fs::path name = path.filename();
    return name == "optimizer.pt" || name == "distrib_optim.pt";
}

// Returns a directory's torch files, sorted by path, so that all processes of a conversion use the
// same order. With `optimizer` false, leaves out the files with optimizer state.
Result<std::vector<fs::path>> torch_files_in(const fs::path& directory, bool optimizer) {
    std::vector<fs::path> files;
    std::error_code error;
    fs::recursive_directory_iterator entry(directory, error);
    for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error))
        if (entry->is_regular_file() && is_torch_name(entry->path()) &&
            (optimizer || !is_optimizer_name(entry->path())))
            files.push_back(entry->path());
    if (error) return fail(ErrorCode::Unavailable, directory.string() + ": " + error.message());
    std::sort(files.begin(), files.end());
    return files;
}

std::map<std::string, std::vector<Extent>> extents_of(const formats::DcpMetadata& metadata,
                                                      bool optimizer) {
    std::map<std::string, std::vector<Extent>> files;
    std::set<std::pair<std::string, std::int64_t>> seen;
    const auto add = [&](const std::string& name, const formats::DcpExtent& extent) {
        if (seen.insert({extent.file, extent.begin}).second)
            files[extent.file].push_back({name, extent.begin, extent.size});
    };
    for (const formats::DcpTensor& tensor : metadata.tensors) {
        if (!optimizer && tensor.info.name.starts_with("optimizer.")) continue;
        for (const formats::DcpChunk& chunk : tensor.chunks) add(tensor.info.name, chunk.extent);
    }
    for (const formats::DcpObject& object : metadata.objects) add(object.name, object.extent);
    return files;
}

}  // namespace

Result<void> check_archives(const fs::path& checkpoint, const std::function<bool()>& stopped,
                            Share share, bool optimizer) {
    Checker checker(stopped, share);
    std::error_code error;
    if (fs::is_regular_file(checkpoint, error))
        return formats::is_nemo_archive(checkpoint) ? checker.check_tar(checkpoint)
                                                    : checker.check_file(checkpoint);
    fs::path place = checkpoint;
    const auto iteration = formats::mca_iteration_directory(checkpoint);
    if (iteration && fs::is_directory(*iteration, error)) place = *iteration;
    const auto check_dist = [&](const fs::path& directory) -> Result<void> {
        ROLL_TRY(const auto metadata, formats::read_dcp_metadata(directory));
        for (const auto& [file, extents] : extents_of(metadata, optimizer))
            ROLL_TRY_VOID(checker.check_file(directory / file, &extents));
        return {};
    };
    const auto dist = dist_directory(checkpoint);
    if (dist) {
        place = *dist;
        ROLL_TRY_VOID(check_dist(place));
    }
    // ROLL writes the optimizer's state to a directory beside the weights.
    const auto apart = optimizer_directory(checkpoint);
    if (optimizer && apart && apart != dist) ROLL_TRY_VOID(check_dist(*apart));
    ROLL_TRY(const auto files, torch_files_in(place, optimizer));
    for (const fs::path& file : files) ROLL_TRY_VOID(checker.check_file(file));
    return {};
}

Result<void> check_bytes(const fs::path& checkpoint, const std::function<bool()>& stopped,
                         Share share, bool optimizer) {
    if (!path_exists(checkpoint / checkpoint::kManifestFile))
        return check_archives(checkpoint, stopped, share, optimizer);
    auto checked = checkpoint::verify_files(
        checkpoint, {share.index, share.count},
        [&](std::string_view path) { return optimizer || !checkpoint::is_optimizer_state(path); });
    if (!checked) return fail(checked.error().code, checked.error().message, kCopyAgain);
    return {};
}

}  // namespace roll::convert
