#include "worker/convert/read/mca.hpp"

#include "common/damage.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/read/kept.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

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
        source.matching.dropped.push_back({where.file, name, "TransformerEngine's state"});
    else
        matcher.add_unexpected(where.file, name);
    return {};
}

// Reads the sections of a rank's file. If only one section is expected, it may be named
// "model" or "model0": ROLL uses the second name if one virtual stage is requested
// explicitly.
Result<void> read_mca_file(Source& source, Matcher& matcher, const fs::path& path,
                           const std::string& file, const std::vector<std::string>& sections) {
    ROLL_TRY(auto opened, formats::TorchFile::open(path));
    const auto torch_file = std::make_shared<formats::TorchFile>(std::move(opened));
    source.storage.files.push_back(torch_file);
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
                source.matching.dropped.push_back({file, name, "TransformerEngine's state"});
            else
                matcher.add_unexpected(file, name);
        }
    }
    return {};
}

// Returns the path of a rank's file in the directory `iteration`. `file` is the path that Roll
// would write ("iter_0000001/RANK/NAME"). Only its last two parts are used, because the checkpoint
// may have another iteration number.
fs::path rank_path(const fs::path& iteration, const fs::path& file) {
    return iteration / file.parent_path().filename() / file.filename();
}

// Checks that all rank files exist. Call this before making any list with one entry per rank,
// because a config may claim any number of ranks.
Result<void> check_rank_files(const fs::path& iteration, const formats::McaLayout& layout) {
    formats::McaRank rank;
    for (rank.pp = 0; rank.pp < layout.pp; ++rank.pp)
        for (rank.ep = 0; rank.ep < layout.ep; ++rank.ep)
            for (rank.tp = 0; rank.tp < layout.tp; ++rank.tp) {
                const fs::path path = rank_path(iteration, formats::mca_rank_file(layout, rank));
                if (formats::mca_has_rank(layout, rank) && !path_exists(path))
                    return fail(ErrorCode::NotFound, path.string() + " does not exist", kCopyAgain);
            }
    return {};
}

// Adds the family's carried tensors, which are copied unchanged. They are in two files: the file of
// the first rank of the first pipeline stage, and the file of the first rank of the last stage.
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

}  // namespace

Result<void> open_mca(Source& source, const families::Families& families) {
    ROLL_TRY_VOID(use_mca_config(source, source.directory, families));
    ROLL_TRY_VOID(use_tensors(source, true));
    ROLL_TRY(const fs::path iteration, formats::mca_iteration_directory(source.directory));
    ROLL_TRY_VOID(check_rank_files(iteration, source.config.layout));
    ROLL_TRY_VOID(carry_mca(source, iteration));
    ROLL_TRY(const std::vector<Stored> expected,
             mca_layout(source.native, source.model, source.config));
    Matcher matcher(expected, source);
    for (const auto& [file, names] : sections_by_file(expected))
        ROLL_TRY_VOID(read_mca_file(source, matcher, rank_path(iteration, file), file, names));
    ROLL_TRY_VOID(matcher.finish());
    return read_kept(source);
}

}  // namespace roll::convert
