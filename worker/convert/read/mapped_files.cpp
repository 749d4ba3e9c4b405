#include "worker/convert/read/mapped_files.hpp"

namespace roll::convert {

Result<std::span<const std::byte>> MappedFiles::bytes_of(const std::string& file) {
    const auto known = files_.find(file);
    if (known != files_.end()) return known->second->bytes();
    ROLL_TRY(MappedFile opened, MappedFile::open(directory_ / file));
    const auto kept = std::make_shared<MappedFile>(std::move(opened));
    source_.storage.files.push_back(kept);
    files_[file] = kept;
    return kept->bytes();
}

}  // namespace roll::convert
