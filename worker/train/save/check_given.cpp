#include "worker/train/save/check_given.hpp"

#include "common/files.hpp"
#include "worker/checkpoint/manifest.hpp"
#include "worker/convert/read/archives.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/train/process/failure.hpp"
#include "worker/train/save/first_error.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// Returns true if all torch files in the checkpoint's directory are parts of the checkpoint.
bool has_checked_format(const fs::path& directory) {
    const auto format = convert::detect_format(directory);
    if (!format) return false;
    switch (*format) {
        case convert::Format::Mca:
        case convert::Format::TorchDist:
        case convert::Format::Dcp:
        case convert::Format::FsdpDtensor:
        case convert::Format::Megatron: return true;
        default: return false;
    }
}

Result<void> check_own(const fs::path& directory, bool optimizer, const convert::Share& share) {
    if (!path_exists(directory / checkpoint::kManifestFile) && !has_checked_format(directory))
        return {};
    return convert::check_bytes(directory, {}, share, optimizer);
}

}  // namespace

void check_given(const fs::path& directory, bool optimizer, Communicator& world) {
    const Result<void> own = check_own(directory, optimizer, {world.rank(), world.size()});
    // End with the status of invalid input, so that the job is not retried. Another attempt would
    // read the same bytes.
    if (const auto bad = first_error(world, own)) throw RankFailure(2, sentence_of(bad->error));
}

}  // namespace roll::train
