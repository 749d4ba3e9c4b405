#include "worker/convert/source.hpp"

#include <algorithm>
#include <set>

#include "worker/convert/mca_layout.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/torch_file.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

// "model.layers.{layer}.x" matches "model.layers.12.x".
bool matches(std::string_view pattern, std::string_view name) {
    while (!pattern.empty()) {
        if (!pattern.starts_with("{layer}")) {
            if (name.empty() || name.front() != pattern.front()) return false;
            pattern.remove_prefix(1);
            name.remove_prefix(1);
            continue;
        }
        pattern.remove_prefix(7);
        std::size_t digits = 0;
        while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
        if (digits == 0) return false;
        name.remove_prefix(digits);
    }
    return name.empty();
}

std::string place_of(const Stored& stored) {
    return stored.file + (stored.section.empty() ? "" : " " + stored.section);
}

// "a, b, c and 4 more": an error stays one line whatever the model's size.
std::string listed(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
        text += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
    return text;
}

// What is expected, by where it is; entries are taken out as tensors are found.
class Matcher {
  public:
    Matcher(std::vector<Stored> expected, Source& source)
        : expected_(std::move(expected)),
          source_(source) {
        for (std::size_t i = 0; i < expected_.size(); ++i)
            places_[{expected_[i].file, expected_[i].section, expected_[i].name}] = i;
    }

    // False if nothing expects a tensor of this name here. `found_in` is the file that has it.
    Result<bool> take(const Stored& where, const std::string& found_in, const std::string& name,
                      const tensor::StridedView& view) {
        const auto found = places_.find({where.file, where.section, name});
        if (found == places_.end()) return false;
        Stored& stored = expected_[found->second];
        if (view.info.shape != stored.shape)
            return fail(
                ErrorCode::Corrupt,
                (stored.file.empty() ? (source_.directory / found_in).string() : place_of(stored)) +
                    ": " + name + " has shape " + tensor::to_string(view.info.shape) +
                    "; the config says " + tensor::to_string(stored.shape));
        stored.file = found_in;
        source_.tensors.push_back({std::move(stored), view});
        places_.erase(found);
        return true;
    }

    // A tensor that nothing expects anywhere.
    void add_unexpected(const std::string& file, const std::string& name) {
        if (unexpected_.empty()) unexpected_in_ = source_.directory / file;
        unexpected_.push_back(name);
    }

    Result<void> finish() const {
        std::vector<std::string> missing;
        std::string place;
        for (const auto& [at, index] : places_) {
            const Stored& stored = expected_[index];
            if (stored.optional) continue;
            if (missing.empty())
                place = stored.file.empty() ? source_.directory.string() : place_of(stored);
            missing.push_back(stored.name);
        }
        const std::string lacks =
            listed(missing) + (missing.size() == 1 ? " is missing" : " are missing");
        if (!unexpected_.empty())
            return fail(
                ErrorCode::InvalidArgument,
                unexpected_in_.string() + ": no rule of family " + source_.family->name +
                    " names " + listed(unexpected_) + (missing.empty() ? "" : "; " + lacks),
                "add a rule to the family's file (docs/families.md); nothing is dropped silently");
        if (!missing.empty()) return fail(ErrorCode::Corrupt, place + ": " + lacks);
        return {};
    }

  private:
    fs::path unexpected_in_;  // the first one's file
    std::vector<std::string> unexpected_;
    std::vector<Stored> expected_;
    std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places_;
    Source& source_;
};

// Hf --------------------------------------------------------------------------------------------

// A tied output layer that the files hold all the same: a copy of the embedding.
void expect_tied_output(std::vector<Stored>& expected, const Source& source) {
    for (const families::WeightRule& rule : source.family->weights) {
        if (rule.native != "output_layer.weight") continue;
        const auto embedding = std::find_if(
            source.native.begin(), source.native.end(),
            [](const auto& one) { return one.name == "embedding.word_embeddings.weight"; });
        if (embedding == source.native.end() || source.model.number.contains(rule.hf[0])) continue;
        const auto number =
            static_cast<std::size_t>(source.model.number.at(embedding->sources[0].name));
        Stored copy = expected[number];
        copy.name = rule.hf[0];
        copy.optional = true;
        expected.push_back(std::move(copy));
    }
}

Result<void> read_hf_tensors(Source& source) {
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(source.directory));
    std::vector<Stored> expected = hf_layout(source.model);
    expect_tied_output(expected, source);
    Matcher matcher(std::move(expected), source);
    std::set<std::string> seen;
    for (const std::string& file : weights.files) {
        ROLL_TRY(formats::HfFile opened, formats::open_hf_file(source.directory / file));
        source.files.push_back(opened.keep);
        for (const tensor::StridedView& view : opened.tensors) {
            const std::string& name = view.info.name;
            if (!seen.insert(name).second)
                return fail(ErrorCode::Corrupt, (source.directory / file).string() + ": " + name +
                                                    " is in another file as well");
            ROLL_TRY(const bool taken, matcher.take({}, file, name, view));
            if (taken) continue;
            bool dropped = false;
            for (const std::string& pattern : source.family->drop)
                dropped |= matches(pattern, name);
            if (dropped)
                source.dropped.push_back({file, name, "the family drops it"});
            else
                matcher.add_unexpected(file, name);
        }
    }
    for (const auto& [name, file] : weights.index)
        if (!seen.contains(name))
            return fail(ErrorCode::Corrupt, (source.directory / file).string() + ": " + name +
                                                " is missing, though the index names it");
    return matcher.finish();
}

// transformers keeps no layers of multi-token prediction, but leaves their number in the config: a
// model whose files have none of them has none.
Result<void> settle_mtp(Source& source) {
    Json& native = source.config.native;
    const auto mtp = native.find("mtp_num_layers");
    if (mtp == native.end() || !mtp->is_number_integer() || *mtp == 0) return {};
    ROLL_TRY(const auto with,
             families::native_tensors(*source.family, native, source.config.hf_config));
    std::set<std::string> names;
    for (const families::NativeTensor& tensor : with)
        if (tensor.name.starts_with("mtp."))
            for (const families::HfTensor& one : tensor.sources) names.insert(one.name);
    ROLL_TRY(const formats::HfWeights weights, formats::find_hf_weights(source.directory));
    for (const auto& [name, file] : weights.index)
        if (names.contains(name)) return {};
    for (const std::string& file : weights.files) {
        if (!weights.index.empty()) break;
        ROLL_TRY(const formats::HfFile opened, formats::open_hf_file(source.directory / file));
        for (const tensor::StridedView& view : opened.tensors)
            if (names.contains(view.info.name)) return {};
    }
    native["mtp_num_layers"] = 0;
    return {};
}

Result<void> open_hf(Source& source, const families::Families& families) {
    ROLL_TRY(source.config.hf_config, formats::read_hf_config(source.directory));
    const auto type = source.config.hf_config.find("model_type");
    if (type == source.config.hf_config.end() || !type->is_string())
        return fail(ErrorCode::InvalidArgument,
                    (source.directory / "config.json").string() + " has no model_type");
    source.config.model_type = type->get<std::string>();
    ROLL_TRY(source.family, families.find(source.config.model_type));
    ROLL_TRY(source.config.native,
             families::native_config(*source.family, source.config.hf_config));
    ROLL_TRY_VOID(settle_mtp(source));
    ROLL_TRY(source.native, families::native_tensors(*source.family, source.config.native,
                                                     source.config.hf_config));
    source.model = model_of(source.native);
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
    if (name.ends_with("._extra_state"))
        source.dropped.push_back({where.file, name, "TransformerEngine's state"});
    else
        matcher.add_unexpected(where.file, name);
    return {};
}

// The sections of a rank's file: "model" is read where "model0" is expected, as ROLL itself writes
// it when a single virtual stage is asked for by number.
Result<void> read_mca_file(Source& source, Matcher& matcher, const fs::path& path,
                           const std::string& file, const std::vector<std::string>& sections) {
    ROLL_TRY(auto opened, formats::TorchFile::open(path));
    const auto torch_file = std::make_shared<formats::TorchFile>(std::move(opened));
    source.files.push_back(torch_file);
    const formats::Pickle& pickle = torch_file->pickle();
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

// The tracker may name another iteration than the one that we write.
fs::path rank_path(const fs::path& iteration, const fs::path& file) {
    return iteration / file.parent_path().filename() / file.filename();
}

// Before anything is listed rank by rank: a config may claim any number of ranks.
Result<void> check_rank_files(const fs::path& iteration, const formats::McaLayout& layout) {
    formats::McaRank rank;
    for (rank.pp = 0; rank.pp < layout.pp; ++rank.pp)
        for (rank.ep = 0; rank.ep < layout.ep; ++rank.ep)
            for (rank.tp = 0; rank.tp < layout.tp; ++rank.tp) {
                const fs::path path = rank_path(iteration, formats::mca_rank_file(layout, rank));
                if (!is_there(path))
                    return fail(ErrorCode::NotFound, path.string() + " is not there");
            }
    return {};
}

Result<void> open_mca(Source& source, const families::Families& families) {
    ROLL_TRY(source.config, formats::read_mca_config(source.directory));
    ROLL_TRY(source.family, families.find(source.config.model_type));
    // What the file does not say follows from the HuggingFace config in it.
    ROLL_TRY(Json native, families::native_config(*source.family, source.config.hf_config));
    for (const auto& [key, value] : source.config.native.items())
        if (!value.is_null()) native[key] = value;
    source.config.native = std::move(native);
    ROLL_TRY(source.native, families::native_tensors(*source.family, source.config.native,
                                                     source.config.hf_config));
    source.model = model_of(source.native);
    ROLL_TRY(const fs::path iteration, formats::mca_iteration_directory(source.directory));
    ROLL_TRY_VOID(check_rank_files(iteration, source.config.layout));
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

const char* name_of(Format format) {
    switch (format) {
        case Format::Hf: return "hf";
        case Format::Mca: return "mca";
    }
    return "";
}

Result<Format> detect_format(const fs::path& directory) {
    if (is_there(directory / "mca_config.json")) return Format::Mca;
    if (is_there(directory / "config.json")) return Format::Hf;
    if (!is_there(directory))
        return fail(ErrorCode::NotFound, directory.string() + " is not there");
    return fail(ErrorCode::NotFound, directory.string() +
                                         " is no checkpoint that we know: it has neither "
                                         "mca_config.json nor config.json");
}

Result<Source> open_source(const fs::path& directory, const families::Families& families) {
    Source source;
    source.directory = directory;
    source.mapped = true;
    ROLL_TRY(source.format, detect_format(directory));
    switch (source.format) {
        case Format::Hf: ROLL_TRY_VOID(open_hf(source, families)); break;
        case Format::Mca: ROLL_TRY_VOID(open_mca(source, families)); break;
    }
    return source;
}

}  // namespace roll::convert
