#include "worker/convert/source.hpp"

#include <algorithm>
#include <set>

#include "worker/convert/adapter.hpp"
#include "worker/convert/copied.hpp"
#include "worker/convert/deepspeed_source.hpp"
#include "worker/convert/dist_source.hpp"
#include "worker/convert/matcher.hpp"
#include "worker/convert/mca_layout.hpp"
#include "worker/convert/megatron_source.hpp"
#include "worker/convert/nemo_source.hpp"
#include "worker/convert/packed.hpp"
#include "worker/convert/quantized.hpp"
#include "worker/convert/source_config.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

// Hf --------------------------------------------------------------------------------------------

// Adds the tied output layer as an optional copy of the embedding, because only some files store
// it.
void expect_tied_output(std::vector<Stored>& expected, const Source& source) {
    const auto tied = tied_output(source);
    if (!tied) return;
    Stored copy = hf_layout(source.model)[static_cast<std::size_t>(tied->embedding)];
    copy.name = tied->name;
    copy.optional = true;
    expected.push_back(std::move(copy));
}

Result<void> read_hf_tensors(Source& source) {
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(source.directory));
    std::vector<Stored> expected = hf_disk_layout(source.model);
    std::for_each(expected.end() - std::ssize(source.model.copies), expected.end(),
                  [](Stored& copy) { copy.optional = true; });
    expect_tied_output(expected, source);
    Matcher matcher(std::move(expected), source);
    std::set<std::string> seen;
    std::map<std::string, tensor::StridedView> scales;
    for (const std::string& file : weights.files) {
        ROLL_TRY(formats::HfFile opened, formats::open_hf_file(source.directory / file));
        source.files.push_back(opened.keep);
        for (const tensor::StridedView& view : opened.tensors) {
            const std::string& name = view.info.name;
            if (!seen.insert(name).second)
                return fail(ErrorCode::Corrupt, (source.directory / file).string() + ": " + name +
                                                    " is also in another file");
            ROLL_TRY_VOID(check_not_quantized(source.directory / file, view.info));
            ROLL_TRY(bool taken, matcher.take({}, file, name, view));
            if (!taken) {
                const std::string other = other_spelling(*source.family, name);
                ROLL_TRY(taken, matcher.take({}, file, other, view));
            }
            if (taken) continue;
            if (const std::string scaled = scaled_by(name); !scaled.empty())
                scales.emplace(scaled, view);
            else if (is_dropped(*source.family, name))
                source.dropped.push_back({file, name, "the family file drops this tensor"});
            else
                matcher.add_unexpected(file, name);
        }
    }
    for (const auto& [name, file] : weights.index)
        if (!seen.contains(name))
            return fail(ErrorCode::Corrupt, (source.directory / file).string() + ": " + name +
                                                " is missing, but the index names it");
    ROLL_TRY_VOID(matcher.finish());
    ROLL_TRY_VOID(settle_copies(source, seen));
    return attach_scales(source, scales);
}

Result<Shapes> shapes_in(const fs::path& directory) {
    Shapes shapes;
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(directory));
    for (const std::string& file : weights.files) {
        ROLL_TRY(const formats::HfFile opened, formats::open_hf_file(directory / file));
        for (const tensor::StridedView& view : opened.tensors)
            shapes.emplace(view.info.name, view.info.shape);
    }
    return shapes;
}

// Returns true if the files have at least one of the config's multi-token-prediction layers.
Result<bool> has_mtp(const Source& source) {
    const Json& native = source.config.native;
    const auto mtp = native.find("mtp_num_layers");
    if (mtp == native.end() || !mtp->is_number_integer() || *mtp == 0) return false;
    ROLL_TRY(const auto with,
             families::native_tensors(*source.family, native, source.config.hf_config));
    std::set<std::string> names;
    for (const families::NativeTensor& tensor : with)
        if (tensor.name.starts_with("mtp."))
            for (const families::HfTensor& one : tensor.sources) names.insert(one.name);
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(source.directory));
    for (const auto& [name, file] : weights.index)
        if (names.contains(name)) return true;
    for (const std::string& file : weights.files) {
        if (!weights.index.empty()) break;
        ROLL_TRY(const formats::HfFile opened, formats::open_hf_file(source.directory / file));
        for (const tensor::StridedView& view : opened.tensors)
            if (names.contains(view.info.name)) return true;
    }
    return false;
}

Result<void> open_hf(Source& source, const families::Families& families) {
    ROLL_TRY(source.config.hf_config, formats::read_hf_config(source.directory));
    ROLL_TRY_VOID(check_not_quantized(source.directory, source.config.hf_config));
    ROLL_TRY_VOID(use_hf_config(source, families));
    ROLL_TRY(const bool mtp, has_mtp(source));
    ROLL_TRY_VOID(use_tensors(source, mtp));
    if (!source.family->packed.empty() || !source.family->carried.empty()) {
        ROLL_TRY(const Shapes found, shapes_in(source.directory));
        ROLL_TRY_VOID(settle_packed(source, found));
        carry_hf(source, found);
    }
    return read_hf_tensors(source);
}

// Mca -------------------------------------------------------------------------------------------

Result<void> take_mca_tensor(Source& source, Matcher& matcher, const Stored& where,
                             const tensor::StridedView& view) {
    const std::string name = older_spelling(view.info.name);
    for (const std::string& spelling :
         {name, local_spelling(name), transformer_engine_spelling(name)}) {
        ROLL_TRY(const bool taken, matcher.take(where, where.file, spelling, view));
        if (taken) return {};
    }
    tensor::StridedView renamed = view;
    renamed.info.name = name;
    ROLL_TRY(const bool grouped, matcher.take_all(where, experts_of(renamed, source.config)));
    if (grouped) return {};
    if (name.ends_with("._extra_state"))
        source.dropped.push_back({where.file, name, "TransformerEngine's state"});
    else
        matcher.add_unexpected(where.file, name);
    return {};
}

// Reads the sections of a rank's file. If the file has one section, accepts "model" for "model0"
// and the reverse, because ROLL writes "model0" if one virtual stage is requested explicitly.
Result<void> read_mca_file(Source& source, Matcher& matcher, const fs::path& path,
                           const std::string& file, const std::vector<std::string>& sections) {
    ROLL_TRY(auto opened, formats::TorchFile::open(path));
    const auto torch_file = std::make_shared<formats::TorchFile>(std::move(opened));
    source.files.push_back(torch_file);
    const formats::Pickle& pickle = torch_file->pickle();
    drop_run_state(source, file, pickle, pickle.root(), {"model"});
    for (const std::string& section : sections) {
        const formats::PickleId* node = pickle.find(pickle.root(), section);
        if (node == nullptr && section == "model") node = pickle.find(pickle.root(), "model0");
        if (node == nullptr && section == "model0" && sections.size() == 1)
            node = pickle.find(pickle.root(), "model");
        if (node == nullptr)
            return fail(ErrorCode::Corrupt, path.string() + " has no \"" + section + "\"");
        ROLL_TRY(const formats::StateDict dict, torch_file->state_dict(*node));
        Stored where;
        where.file = file;
        where.section = section;
        for (const tensor::StridedView& view : dict.tensors)
            ROLL_TRY_VOID(take_mca_tensor(source, matcher, where, view));
        for (const std::string& name : dict.others) {
            if (name.ends_with("._extra_state"))
                source.dropped.push_back({file, name, "TransformerEngine's state"});
            else
                matcher.add_unexpected(file, name);
        }
    }
    return {};
}

// Returns the path of a rank's file in `iteration`. Replaces the iteration in `file`, because the
// tracker file may name another iteration than the one that Roll writes.
fs::path rank_path(const fs::path& iteration, const fs::path& file) {
    return iteration / file.parent_path().filename() / file.filename();
}

// Checks that all rank files exist. Call it before making any list with one entry per rank, because
// a config may claim any number of ranks.
Result<void> check_rank_files(const fs::path& iteration, const formats::McaLayout& layout) {
    formats::McaRank rank;
    for (rank.pp = 0; rank.pp < layout.pp; ++rank.pp)
        for (rank.ep = 0; rank.ep < layout.ep; ++rank.ep)
            for (rank.tp = 0; rank.tp < layout.tp; ++rank.tp) {
                const fs::path path = rank_path(iteration, formats::mca_rank_file(layout, rank));
                if (formats::mca_has_rank(layout, rank) && !is_there(path))
                    return fail(ErrorCode::NotFound, path.string() + " is not there");
            }
    return {};
}

// Adds the carried tensors in the files of the first rank of the first and of the last pipeline
// stage.
Result<void> carry_mca(Source& source, const fs::path& iteration) {
    const formats::McaLayout& layout = source.config.layout;
    for (const int pp : {0, layout.pp - 1}) {
        if (source.family->carried.empty()) return {};
        const fs::path file = formats::mca_rank_file(layout, {.tp = 0, .pp = pp, .ep = 0});
        ROLL_TRY(const auto opened, formats::TorchFile::open(rank_path(iteration, file)));
        ROLL_TRY_VOID(carry_rank(source, opened, pp));
    }
    return {};
}

Result<void> open_mca(Source& source, const families::Families& families) {
    ROLL_TRY_VOID(use_mca_config(source, source.directory, families));
    ROLL_TRY_VOID(use_tensors(source, true));
    ROLL_TRY(const fs::path iteration, formats::mca_iteration_directory(source.directory));
    ROLL_TRY_VOID(check_rank_files(iteration, source.config.layout));
    ROLL_TRY_VOID(carry_mca(source, iteration));
    ROLL_TRY(const std::vector<Stored> expected,
             mca_layout(source.native, source.model, source.config));
    std::map<std::string, std::vector<std::string>> sections;
    for (const Stored& stored : expected) {
        auto& of_file = sections[stored.file];
        if (of_file.empty() || of_file.back() != stored.section) of_file.push_back(stored.section);
    }
    Matcher matcher(expected, source);
    for (const auto& [file, names] : sections) {
        const fs::path path =
            iteration / fs::path(file).parent_path().filename() / fs::path(file).filename();
        ROLL_TRY_VOID(read_mca_file(source, matcher, path, file, names));
    }
    return matcher.finish();
}

}  // namespace

Result<Format> detect_format(const fs::path& directory) {
    if (!is_there(directory))
        return fail(ErrorCode::NotFound, directory.string() + " is not there");
    const auto distributed = dist_directory(directory);
    const bool has_weights = distributed || megatron_directory(directory) ||
                             formats::find_hf_weights(directory).has_value();
    if (!has_weights && !find_adapters(directory).empty()) return Format::Peft;
    if (is_there(directory / "mca_config.json") && !distributed) return Format::Mca;
    if (formats::find_hf_weights(directory)) return Format::Hf;
    if (distributed) return dist_format(*distributed);
    if (megatron_directory(directory)) return Format::Megatron;
    if (is_nemo(directory)) return Format::Nemo;
    if (deepspeed_directory(directory)) return Format::DeepSpeed;
    if (is_there(directory / "config.json")) return Format::Hf;
    return fail(ErrorCode::NotFound, directory.string() +
                                         " is not a known checkpoint format: it has none of "
                                         "mca_config.json, config.json, .metadata and "
                                         "mp_rank_00");
}

Result<Source> open_source(const fs::path& directory, const families::Families& families,
                           const OpenOptions& options) {
    const fs::path& config = options.config;
    Source source;
    source.strictness = options.strictness;
    source.state = options.state;
    source.directory = directory;
    source.mapped = true;
    ROLL_TRY(source.format, detect_format(directory));
    const bool distributed = source.format == Format::TorchDist || source.format == Format::Dcp;
    if (!source.state.empty() && !distributed)
        return fail(ErrorCode::InvalidArgument,
                    directory.string() + " is of format " + name_of(source.format) +
                        "; --state is only for torch_dist and fsdp_dtensor");
    switch (source.format) {
        case Format::Hf:
        case Format::Bin: ROLL_TRY_VOID(open_hf(source, families)); break;
        case Format::Mca: ROLL_TRY_VOID(open_mca(source, families)); break;
        case Format::TorchDist:
        case Format::FsdpDtensor:
        case Format::Dcp: ROLL_TRY_VOID(open_dist(source, families, config)); break;
        case Format::Megatron: ROLL_TRY_VOID(open_megatron(source, families, config)); break;
        case Format::Nemo: ROLL_TRY_VOID(open_nemo(source, families, config)); break;
        case Format::DeepSpeed: ROLL_TRY_VOID(open_deepspeed(source, families, config)); break;
        case Format::Peft:
            return fail(ErrorCode::InvalidArgument,
                        directory.string() + " is a LoRA adapter, not a model",
                        "rollctl merge BASE " + directory.string() +
                            " DST merges the adapter; rollctl convert converts the adapter to "
                            "another format");
    }
    return source;
}

}  // namespace roll::convert
