#include "worker/convert/read/kept.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/plan/rows.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {
namespace {

// Adds the HuggingFace tensor `name` to the model. Returns the new tensor's entry in the
// HuggingFace layout. Only HuggingFace files and kKeptFile can store this tensor.
Stored add_kept(Source& source, const std::string& name, const Shape& shape) {
    const int number = source.model.add({name, shape});
    source.model.kept.insert(number);
    std::erase_if(source.model.copies, [&](const auto& copy) { return copy.name == name; });
    return whole_tensor(source.model, number);
}

// Returns true if tensor `copy` of the source equals its original, the HuggingFace tensor `hf`.
Result<bool> equals_original(const Source& source, std::size_t copy, int hf) {
    const std::string& name = source.model.tensors[static_cast<std::size_t>(hf)].name;
    const auto original = std::find_if(source.tensors.begin(), source.tensors.end(),
                                       [&](auto& one) { return one.stored.name == name; });
    if (original == source.tensors.end()) return true;
    const Shape& shape = source.tensors[copy].stored.shape;
    const Shape zero(shape.size(), 0);
    const auto first = static_cast<std::size_t>(original - source.tensors.begin());
    const auto equal = compare(source, {first, copy, zero, zero, shape});
    if (!equal && equal.error().code != ErrorCode::Corrupt) return tl::unexpected(equal.error());
    return equal.has_value();
}

}  // namespace

Result<void> keep_differing_copies(Source& source, const std::set<std::string>& found) {
    std::set<std::string> equal = found;
    const auto copies = source.model.copies;
    for (std::size_t i = 0; i < source.tensors.size(); ++i) {
        Stored& stored = source.tensors[i].stored;
        const auto copy = std::find_if(copies.begin(), copies.end(),
                                       [&](const auto& one) { return one.name == stored.name; });
        if (copy == copies.end()) continue;
        ROLL_TRY(const bool same, equals_original(source, i, copy->hf));
        if (same) continue;
        equal.erase(stored.name);
        const std::string file = stored.file;
        stored = add_kept(source, stored.name, stored.shape);
        stored.file = file;
    }
    return equal.size() == found.size() ? Result<void>() : settle_copies(source, equal);
}

Result<void> read_kept(Source& source) {
    const auto announced = source.config.native.find(kKeptField);
    const bool is_announced = announced != source.config.native.end() && *announced == true;
    const std::filesystem::path path = source.directory / kKeptFile;
    if (!path_exists(path)) {
        if (!is_announced) return {};
        return fail(
            ErrorCode::Corrupt,
            path.string() + " does not exist, although mca_config.json has " + kKeptField +
                ": true",
            std::string("convert the HuggingFace model again, or set ") + kKeptField +
                " to false: Roll then writes copies of the embedding and of the output layer");
    }
    ROLL_TRY(const auto copies, families::copied_tensors(*source.family, source.config.native));
    ROLL_TRY(formats::HfFile opened, formats::open_hf_file(path));
    source.storage.files.push_back(opened.keep);
    for (const tensor::StridedView& view : opened.tensors) {
        const std::string& name = view.info.name;
        const bool known = std::any_of(copies.begin(), copies.end(),
                                       [&](const auto& copy) { return copy.name == name; });
        if (!known)
            return fail(ErrorCode::Corrupt, path.string() + ": " + name +
                                                " is not one of the tensors that family " +
                                                source.family->name + " stores in this file");
        Stored stored = add_kept(source, name, view.info.shape);
        stored.file = kKeptFile;
        source.tensors.push_back({std::move(stored), view});
    }
    return {};
}

}  // namespace roll::convert
