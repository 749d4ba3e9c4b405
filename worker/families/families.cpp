#include "worker/families/families.hpp"

#include <cstdlib>
#include <filesystem>

#include "common/files.hpp"
#include "worker/families/embedded.hpp"

namespace roll::families {
namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error))
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

Result<Families> Families::load() {
    Families families;
    const auto add = [&](std::string_view text, const std::string& where) -> Result<void> {
        ROLL_TRY(const Family family, parse_family(text, where));
        for (const std::string& model_type : family.model_types)
            families.families_.insert_or_assign(model_type, family);
        return {};
    };
    for (const EmbeddedFile& file : embedded_families())
        ROLL_TRY_VOID(add(file.content, file.name));
    const char* const variable = std::getenv("ROLL_FAMILIES");  // NOLINT: no threads yet
    std::string directories = variable == nullptr ? "" : variable;
    while (!directories.empty()) {
        const std::size_t end = std::min(directories.find(':'), directories.size());
        const std::string directory = directories.substr(0, end);
        directories.erase(0, end + 1);
        for (const auto& path : files_of(directory)) {
            ROLL_TRY(const std::string text, read_file(path));
            ROLL_TRY_VOID(add(text, path.string()));
        }
    }
    return families;
}

Result<Families> Families::load_for(const std::string& model_type) {
    if (std::getenv("ROLL_FAMILIES") != nullptr) return load();  // NOLINT: no threads yet
    for (const EmbeddedFile& file : embedded_families()) {
        if (file.name != model_type + ".json") continue;
        ROLL_TRY(Family family, parse_family(file.content, file.name));
        if (family.model_type != model_type) break;
        Families one;
        one.families_.emplace(model_type, std::move(family));
        return one;
    }
    return load();
}

Result<const Family*> Families::find(const std::string& model_type) const {
    const auto found = families_.find(model_type);
    if (found != families_.end()) return &found->second;
    std::string known;
    for (const auto& [name, family] : families_) known += (known.empty() ? "" : ", ") + name;
    return fail(ErrorCode::NotFound, "no family file covers " + model_type + "; known: " + known,
                "add a file to a directory of ROLL_FAMILIES (docs/families.md)");
}

}  // namespace roll::families
