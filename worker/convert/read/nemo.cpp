#include "worker/convert/read/nemo.hpp"

#include <algorithm>
#include <regex>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/older_layouts.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/formats/megatron.hpp"
#include "worker/formats/nemo.hpp"
#include "worker/formats/tar.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using formats::TorchFile;

// The files of a directory or archive, by their names. `source` keeps opened files mapped.
class Files {
  public:
    static Result<Files> open(Source& source) {
        Files files(source);
        std::error_code error;
        if (fs::is_directory(source.directory, error)) {
            files.list();
            return files;
        }
        ROLL_TRY(MappedFile mapped, MappedFile::open(source.directory));
        files.archive_ = std::make_shared<MappedFile>(std::move(mapped));
        source.storage.files.push_back(files.archive_);
        const auto members = formats::parse_tar(files.archive_->bytes());
        if (!members)
            return fail(members.error().code,
                        source.directory.string() + ": " + members.error().message,
                        members.error().hint);
        for (const formats::TarMember& member : *members)
            files.bytes_[member.name] = files.archive_->bytes().subspan(
                static_cast<std::size_t>(member.begin), static_cast<std::size_t>(member.size));
        source.storage.archived = files.bytes_;
        return files;
    }

    std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const auto& [name, bytes] : bytes_) names.push_back(name);
        return names;
    }

    Result<std::shared_ptr<const TorchFile>> torch_file(const std::string& name) const {
        if (archive_ == nullptr) {
            ROLL_TRY(auto file, TorchFile::open(source_->directory / name));
            return std::make_shared<const TorchFile>(std::move(file));
        }
        ROLL_TRY(auto file, TorchFile::parse(source_->directory / name, bytes_.at(name)));
        return std::make_shared<const TorchFile>(std::move(file));
    }

    Result<std::string> text(const std::string& name) const {
        if (archive_ == nullptr) return read_regular_file(source_->directory / name);
        const auto bytes = bytes_.at(name);
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }

  private:
    explicit Files(Source& source) : source_(&source) {}
    void list() {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(source_->directory, error)) {
            const std::string name = entry.path().filename().string();
            bytes_[name];
            if (!entry.is_directory(error)) continue;
            for (const auto& inner : fs::directory_iterator(entry.path(), error))
                bytes_[name + "/" + inner.path().filename().string()];
        }
    }
    Source* source_;
    std::shared_ptr<const MappedFile> archive_;
    // contents of the archive's files, by their names
    std::map<std::string, std::span<const std::byte>> bytes_;
};

struct Ranks {
    formats::McaLayout layout;
    std::map<std::pair<int, int>, std::string> files;  // names of the rank files, by (tp, pp)
};

const std::regex& weights_pattern() {
    static const std::regex pattern(
        "((mp_rank_|tp_rank_)([0-9]{2,4})(_pp_rank_([0-9]{3,4}))?/)?model_weights\\.(ckpt|pt)");
    return pattern;
}

Result<Ranks> ranks_of(const Files& files, const fs::path& where) {
    Ranks ranks;
    for (const std::string& name : files.names()) {
        std::smatch match;
        if (!std::regex_match(name, match, weights_pattern())) continue;
        const int tp = match[3].matched ? std::stoi(match[3]) : 0;
        const int pp = match[5].matched ? std::stoi(match[5]) : 0;
        ranks.layout.tp = std::max(ranks.layout.tp, tp + 1);
        ranks.layout.pp = std::max(ranks.layout.pp, pp + 1);
        if (!ranks.files.emplace(std::pair(tp, pp), name).second)
            return fail(ErrorCode::Corrupt,
                        where.string() + " has two files for the same rank: " + name);
    }
    for (int tp = 0; tp < ranks.layout.tp; ++tp)
        for (int pp = 0; pp < ranks.layout.pp; ++pp)
            if (!ranks.files.contains({tp, pp}))
                return fail(ErrorCode::NotFound,
                            where.string() +
                                " has no file with the weights of tensor-parallel rank " +
                                std::to_string(tp) + ", stage " + std::to_string(pp));
    return ranks;
}

Result<formats::NemoConfig> config_of(const Files& files, const fs::path& where) {
    for (const std::string& name : files.names()) {
        const bool is_config = name == "model_config.yaml" ||
                               (name.starts_with("megatron_") && name.ends_with(".yaml"));
        if (!is_config) continue;
        ROLL_TRY(const std::string text, files.text(name));
        return formats::parse_nemo_config(text, (where / name).string());
    }
    return fail(
        ErrorCode::NotFound,
        where.string() +
            " has no YAML file; without it, Roll cannot know the order of the attention rows",
        "copy the checkpoint again with its model_config.yaml or megatron_*.yaml");
}

// Finds the model's config in the archive or in its directory.
Result<void> find_model_config(Source& source, const Files& files,
                               const families::Families& families, const fs::path& given) {
    const fs::path& where = source.directory;
    if (!given.empty() || !source.storage.archived.contains("config.json"))
        return find_config(source, families, {where, where.parent_path()}, given);
    ROLL_TRY(const std::string text, files.text("config.json"));
    return use_config_text(source, text, where / "config.json", families);
}

// Properties of the checkpoint, determined from the first rank's file.
struct Look {
    std::int64_t vocabulary = 0;  // number of rows of the embedding
    bool gate_apart = false;
    bool core = false;  // true: tensors have the names of Megatron core
};

Look look_at(const TorchFile& file) {
    Look look;
    const formats::Pickle& pickle = file.pickle();
    const std::vector<formats::PickleId>* entries = pickle.entries_of(pickle.root());
    for (std::size_t i = 0; entries != nullptr && i + 1 < entries->size(); i += 2) {
        const std::string& key = pickle.at((*entries)[i]).text;
        look.gate_apart |= key.ends_with(".mlp.dense_h_to_4h_2.weight");
        look.core |= key.ends_with(".linear_qkv.weight");
        if (!key.ends_with("word_embeddings.weight")) continue;
        const auto view = file.tensor((*entries)[i + 1]);
        if (view && *view && !(*view)->info.shape.empty()) look.vocabulary = (*view)->info.shape[0];
    }
    return look;
}

}  // namespace

bool is_nemo(const fs::path& path) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) return formats::is_nemo_archive(path);
    for (const char* name :
         {"model_weights.ckpt", "mp_rank_00/model_weights.ckpt",
          "tp_rank_00_pp_rank_000/model_weights.ckpt", "tp_rank_00/model_weights.pt"})
        if (fs::is_regular_file(path / name, error)) return true;
    return false;
}

Result<void> open_nemo(Source& source, const families::Families& families, const fs::path& given) {
    const fs::path& where = source.directory;
    ROLL_TRY(const Files files, Files::open(source));
    ROLL_TRY(const Ranks ranks, ranks_of(files, where));
    ROLL_TRY(const formats::NemoConfig nemo, config_of(files, where));
    ROLL_TRY_VOID(find_model_config(source, files, families, given));
    ROLL_TRY_VOID(use_tensors(source, false));
    source.config.layout = ranks.layout;
    if (!ranks.files.contains({0, 0}))
        return fail(ErrorCode::InvalidArgument,
                    where.string() + " has no model_weights.ckpt of rank 0",
                    "unpack an archive of a distributed checkpoint first (tar xf)");
    ROLL_TRY(const auto first, files.torch_file(ranks.files.at({0, 0})));
    const Look look = look_at(*first);
    const std::int64_t rows = vocabulary_of(source);
    const std::int64_t padded = look.vocabulary * ranks.layout.tp;
    if (padded > rows) pad_vocabulary(source, padded);
    ROLL_TRY(std::vector<Stored> expected, mca_layout(source.native, source.model, source.config));
    if (padded > rows) unpad_vocabulary(source, expected, rows);
    for (Stored& stored : expected) {
        stored.section.clear();
        if (is_qkv(stored) && nemo.rows_by_part && !look.core) order_by_part(stored);
    }
    if (look.gate_apart) expected = with_gate_apart(std::move(expected));
    RankReader reader(source, std::move(expected));
    for (const auto& [rank, name] : ranks.files) {
        const std::string label =
            formats::mca_rank_file(ranks.layout, {.tp = rank.first, .pp = rank.second, .ep = 0});
        ROLL_TRY(const auto file, files.torch_file(name));
        ROLL_TRY_VOID(reader.read(file, label, {""}));
    }
    return reader.finish();
}

}  // namespace roll::convert
