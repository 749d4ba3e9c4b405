#include "worker/convert/read/mapped_files.hpp"

#include "common/damage.hpp"

namespace roll::convert {

Result<std::span<const std::byte>> MappedFiles::bytes_of(const std::string& file) {
    const auto known = files_.find(file);
    if (known != files_.end()) return known->second->bytes();
    auto opened = MappedFile::open(directory_ / file);
    if (!opened) return fail(opened.error().code, opened.error().message, kCopyAgain);
    const auto kept = std::make_shared<MappedFile>(*std::move(opened));
    source_.storage.files.push_back(kept);
    files_[file] = kept;
    return kept->bytes();
}

}  // namespace roll::convert
