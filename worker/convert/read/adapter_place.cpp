#include "worker/convert/read/adapter_place.hpp"

#include <set>

#include "common/files.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

bool has_config(const fs::path& directory) {
    std::error_code error;
    return fs::is_regular_file(directory / "adapter_config.json", error);
}

AdapterPlace place_of(const fs::path& directory, const std::string& name) {
    std::error_code error;
    const bool peft = fs::exists(directory / "adapter_model.safetensors", error) ||
                      fs::exists(directory / "adapter_model.bin", error);
    return {name, directory, !peft};
}

}  // namespace

std::vector<AdapterPlace> find_adapters(const fs::path& directory) {
    std::vector<AdapterPlace> places;
    if (has_config(directory)) places.push_back(place_of(directory, "default"));
    std::error_code error;
    std::set<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(directory, error))
        if (has_config(entry.path())) folders.insert(entry.path());
    for (const fs::path& folder : folders)
        places.push_back(place_of(folder, folder.filename().string()));
    return places;
}

Result<void> check_matrices(const AdapterPlace& place) {
    const fs::path& directory = place.directory;
    if (!place.native || path_exists(directory / "mca_config.json") ||
        path_exists(directory.parent_path() / "mca_config.json"))
        return {};
    return fail(ErrorCode::NotFound,
                directory.string() +
                    " contains adapter_config.json, but none of adapter_model.safetensors, "
                    "adapter_model.bin and mca_config.json; copy the adapter again");
}

}  // namespace roll::convert
