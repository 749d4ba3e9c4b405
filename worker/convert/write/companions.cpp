#include "worker/convert/write/companions.hpp"

#include "common/files.hpp"
#include "worker/formats/bytes_tokenizer.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

Result<void> write(const fs::path& path, std::string_view content) {
    ROLL_TRY_VOID(make_directories(path.parent_path()));
    return write_file_atomically(path, content);
}

}  // namespace

Result<void> write_companion_files(const Source& source, const fs::path& directory) {
    const fs::path& from = source.companions.empty() ? source.directory : source.companions;
    for (const std::string& name : formats::companion_files(from)) {
        ROLL_TRY(const std::string content, read_regular_file(from / name));
        ROLL_TRY_VOID(write(directory / name, content));
    }
    for (const auto& [name, bytes] : source.storage.archived)
        if (formats::is_companion(name))
            ROLL_TRY_VOID(write(directory / name,
                                {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    std::error_code error;
    if (!formats::has_bytes_tokenizer(source.config.hf_config) ||
        fs::exists(directory / "tokenizer.json", error))
        return {};
    for (const auto& [name, content] : formats::bytes_tokenizer_files())
        ROLL_TRY_VOID(write(directory / name, content));
    return {};
}

}  // namespace roll::convert
