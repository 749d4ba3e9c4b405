#include "worker/convert/read/adapter_place.hpp"

#include <set>

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

}  // namespace roll::convert
