#include "worker/convert/edit.hpp"

#include <algorithm>
#include <set>

#include "common/files.hpp"
#include "common/tensor/output_file.hpp"
#include "worker/convert/read/dist.hpp"
#include "worker/convert/write/carry_out.hpp"
#include "worker/convert/write/dist.hpp"
#include "worker/convert/write/hf.hpp"
#include "worker/convert/write/staging.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kObjectsFile = "__objects.distcp";

// A checkpoint that is opened without a family. Its model consists of the tensors in its files.
struct Raw {
    Source source;
    fs::path directory;        // directory that contains .metadata or the weights
    std::set<fs::path> files;  // files that are rewritten and not copied; relative to the root
    // entries of a distributed checkpoint that are not tensors
    std::vector<formats::DcpObject> objects;
    std::map<std::string, Shape> originals;  // original shapes of flattened tensors
    bool is_distributed = false;
};

// Applies the rules to names. A rule that has matched no tensor at the end is an error, because its
// pattern may be misspelt.
class Namer {
  public:
    Namer(const std::vector<NameRule>& rules, EditReport& report)
        : rules_(rules),
          report_(report),
          fitted_(rules.size(), false) {}

    // Returns the new name of a tensor; nullopt if the tensor is removed.
    std::optional<std::string> operator()(const std::string& name) {
        for (std::size_t i = 0; i < rules_.size(); ++i) {
            const auto made = renamed_by(rules_[i], name);
            if (!made) continue;
            fitted_[i] = true;
            if (!made->empty()) {
                report_.renamed[name] = *made;
                return made;
            }
            if (std::find(report_.removed.begin(), report_.removed.end(), name) ==
                report_.removed.end())
                report_.removed.push_back(name);
            return std::nullopt;
        }
        return name;
    }

    Result<void> finish() const {
        for (std::size_t i = 0; i < rules_.size(); ++i)
            if (!fitted_[i])
                return fail(ErrorCode::InvalidArgument, "no tensor is named " + rules_[i].name,
                            "rollctl inspect lists the names");
        return {};
    }

  private:
    const std::vector<NameRule>& rules_;
    EditReport& report_;
    std::vector<bool> fitted_;
};

Result<Raw> open_hf(const fs::path& directory) {
    Raw raw;
    raw.directory = directory;
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(directory));
    for (const formats::HfContainer& container : {formats::kSafetensors, formats::kTorchFiles})
        raw.files.insert(formats::index_name(container));
    for (const std::string& file : weights.files) {
        raw.files.insert(file);
        ROLL_TRY(const formats::HfFile opened, formats::open_hf_file(directory / file));
        raw.source.storage.files.push_back(opened.keep);
        for (const tensor::StridedView& view : opened.tensors) {
            const int number = raw.source.model.add({view.info.name, view.info.shape});
            const Shape zero(view.info.shape.size(), 0);
            Stored stored{file, "", view.info.name, view.info.shape, {}, false};
            stored.pieces = {{number, zero, view.info.shape, zero}};
            raw.source.tensors.push_back({std::move(stored), view});
        }
    }
    return raw;
}

Result<Raw> open_distributed(const fs::path& root, const fs::path& found) {
    Raw raw;
    raw.is_distributed = true;
    std::error_code error;
    raw.directory = fs::canonical(found / formats::kDcpMetadataFile, error).parent_path();
    const fs::path inside = raw.directory.lexically_relative(fs::canonical(root, error));
    raw.files.insert((inside / formats::kDcpMetadataFile).lexically_normal());
    ROLL_TRY(formats::DcpMetadata metadata, formats::read_dcp_metadata(raw.directory));
    std::map<std::string, std::shared_ptr<const MappedFile>> files;
    const auto file_of = [&](const std::string& name) -> Result<std::span<const std::byte>> {
        raw.files.insert((inside / name).lexically_normal());
        if (const auto known = files.find(name); known != files.end())
            return known->second->bytes();
        ROLL_TRY(MappedFile opened, MappedFile::open(raw.directory / name));
        const auto kept = std::make_shared<const MappedFile>(std::move(opened));
        raw.source.storage.files.push_back(kept);
        files[name] = kept;
        return kept->bytes();
    };
    for (const formats::DcpTensor& tensor : metadata.tensors) {
        const int number = raw.source.model.add({tensor.info.name, tensor.info.shape});
        if (tensor.original) raw.originals[tensor.info.name] = *tensor.original;
        for (const formats::DcpChunk& chunk : tensor.chunks) {
            ROLL_TRY(const auto bytes, file_of(chunk.extent.file));
            const fs::path path = raw.directory / chunk.extent.file;
            ROLL_TRY(tensor::StridedView view,
                     formats::open_dcp_chunk(path, bytes, tensor.info, chunk));
            Stored stored;
            stored.file = (inside / chunk.extent.file).lexically_normal();
            stored.name = tensor.info.name;
            stored.shape = chunk.size;
            stored.pieces = {{number, chunk.begin, chunk.size, Shape(chunk.size.size(), 0)}};
            stored.whole = tensor.info.shape;
            stored.origin = chunk.begin;
            raw.source.tensors.push_back({std::move(stored), std::move(view)});
        }
    }
    for (const formats::DcpObject& object : metadata.objects)
        ROLL_TRY_VOID(file_of(object.extent.file));
    raw.objects = std::move(metadata.objects);
    return raw;
}

Result<Raw> open_raw(const fs::path& root) {
    std::error_code error;
    if (!fs::exists(root, error))
        return fail(ErrorCode::NotFound, root.string() + " does not exist");
    if (const auto distributed = dist_directory(root)) return open_distributed(root, *distributed);
    if (formats::find_hf_weights(root)) return open_hf(root);
    return fail(ErrorCode::InvalidArgument,
                root.string() + " is neither a HuggingFace directory nor a distributed checkpoint",
                "convert the checkpoint to hf or dcp first (rollctl convert)");
}

// Copies the files that are not rewritten. Skips symbolic links, because new links are created
// where needed.
Result<void> copy_rest(const fs::path& root, const std::set<fs::path>& written,
                       const fs::path& target) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(root, error)) {
        const fs::path path = entry.path().lexically_relative(root);
        if (entry.is_symlink(error) || !entry.is_regular_file(error) || written.contains(path))
            continue;
        ROLL_TRY(const std::string content, read_regular_file(entry.path()));
        ROLL_TRY_VOID(make_directories((target / path).parent_path()));
        ROLL_TRY_VOID(write_file_atomically(target / path, content));
    }
    return {};
}

// Writes the kept objects to one file. If two objects share bytes in the source, they also share
// bytes in this file.
Result<std::vector<formats::DcpObject>> write_objects(const Raw& raw, Namer& namer,
                                                      const fs::path& directory) {
    std::vector<formats::DcpObject> kept;
    std::map<std::pair<std::string, std::int64_t>, std::int64_t> places;
    std::string content;
    for (const formats::DcpObject& object : raw.objects) {
        const auto name = namer(object.name);
        if (!name) continue;
        const auto [place, added] =
            places.emplace(std::pair(object.extent.file, object.extent.begin),
                           static_cast<std::int64_t>(content.size()));
        if (added) {
            const fs::path path = raw.directory / object.extent.file;
            ROLL_TRY(const MappedFile file, MappedFile::open(path));
            const auto total = static_cast<std::int64_t>(file.bytes().size());
            if (object.extent.begin > total || object.extent.size > total - object.extent.begin)
                return fail(ErrorCode::Corrupt, path.string() + " ends before " + object.name);
            const auto bytes = file.bytes().subspan(static_cast<std::size_t>(object.extent.begin),
                                                    static_cast<std::size_t>(object.extent.size));
            content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        }
        kept.push_back({*name, {kObjectsFile, place->second, object.extent.size}});
    }
    if (!kept.empty()) ROLL_TRY_VOID(write_file_atomically(directory / kObjectsFile, content));
    return kept;
}

// Creates links in the iteration directory. The links point to the files in ROLL's folder, a
// subdirectory of the iteration directory. Megatron looks for the files in the iteration directory.
// Does nothing if the source has no such links.
Result<void> link_above(const Raw& raw, const fs::path& root, const fs::path& written) {
    std::error_code error;
    const fs::path above = raw.directory.parent_path() / formats::kDcpMetadataFile;
    if (!fs::is_symlink(above, error)) return {};
    const fs::path inside = raw.directory.lexically_relative(fs::canonical(root, error)).filename();
    for (const auto& entry : fs::directory_iterator(written, error)) {
        const fs::path name = entry.path().filename();
        if (fs::exists(written.parent_path() / name, error)) continue;
        fs::create_symlink(inside / name, written.parent_path() / name, error);
        if (error)
            return fail(ErrorCode::Failed, "cannot link " + name.string() + ": " + error.message());
    }
    return {};
}

Result<void> finish_hf(const Raw& raw, const Plan& plan, const fs::path& directory) {
    std::error_code error;
    for (const formats::HfContainer& container : {formats::kSafetensors, formats::kTorchFiles})
        if (fs::exists(raw.directory / formats::index_name(container), error))
            ROLL_TRY_VOID(write_index(plan, container, directory));
    return {};
}

// Returns the kept tensors with their new names. Each tensor stays in its file.
Result<std::vector<Stored>> new_layout(const Source& source, Namer& namer) {
    std::vector<Stored> layout;
    std::map<std::string, std::string> taken;  // maps each new name in use to the old name
    for (const SourceTensor& one : source.tensors) {
        const auto name = namer(one.stored.name);
        if (!name) continue;
        const auto [place, first] = taken.emplace(*name, one.stored.name);
        if (!first && place->second != one.stored.name)
            return fail(ErrorCode::InvalidArgument, one.stored.name + " and " + place->second +
                                                        " would both be named " + *name);
        layout.push_back(one.stored);
        layout.back().name = *name;
    }
    if (layout.empty())
        return fail(ErrorCode::InvalidArgument, "no tensor would be left; remove fewer tensors");
    return layout;
}

}  // namespace

Result<EditReport> edit(const EditRequest& request, const Hooks& hooks) {
    ROLL_TRY_VOID(check_apart(request.source, request.target));
    ROLL_TRY(Raw raw, open_raw(request.source));
    raw.source.directory = request.source;
    raw.source.storage.mapped = true;
    EditReport report;
    Namer namer(request.rules, report);
    ROLL_TRY(std::vector<Stored> layout, new_layout(raw.source, namer));
    ROLL_TRY(const Plan plan, make_plan(raw.source, std::move(layout), std::nullopt));
    report.tensors = plan.tensors.size();
    ROLL_TRY(Staging staging, Staging::begin(request.target, request.overwrite));
    std::error_code error;
    const fs::path inside = raw.directory.lexically_relative(
        raw.is_distributed ? fs::canonical(request.source, error) : request.source);
    const fs::path directory = (staging.directory() / inside).lexically_normal();
    ROLL_TRY_VOID(make_directories(directory));
    std::vector<formats::DcpObject> objects;
    if (raw.is_distributed) {
        ROLL_TRY(objects, write_objects(raw, namer, directory));
    }
    ROLL_TRY_VOID(namer.finish());
    ROLL_TRY_VOID(carry_out(raw.source, plan, staging.directory(), Run{}, hooks));
    ROLL_TRY_VOID(copy_rest(request.source, raw.files, staging.directory()));
    if (raw.is_distributed) {
        std::map<std::string, Shape> originals;
        for (const auto& [name, shape] : raw.originals) {
            const auto renamed = report.renamed.find(name);
            originals[renamed == report.renamed.end() ? name : renamed->second] = shape;
        }
        ROLL_TRY_VOID(finish_dcp(plan, std::move(objects), directory, originals));
        ROLL_TRY_VOID(link_above(raw, request.source, directory));
    } else {
        ROLL_TRY_VOID(finish_hf(raw, plan, directory));
    }
    if (hooks.stopped()) return fail(ErrorCode::Unavailable, "stopped");
    ROLL_TRY_VOID(staging.publish());
    return report;
}

}  // namespace roll::convert
