#include "worker/convert/read/megatron.hpp"

#include <algorithm>
#include <array>
#include <regex>

#include "common/check.hpp"
#include "common/files.hpp"
#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/older_layouts.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/read/rank_reader.hpp"
#include "worker/formats/megatron.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;
using formats::TorchFile;

constexpr std::array<const char*, 2> kFiles{"model_optim_rng.pt", "model_rng.pt"};

std::optional<fs::path> weights_in(const fs::path& directory) {
    for (const char* name : kFiles)
        if (is_file(directory / name)) return directory / name;
    return std::nullopt;
}

// Derives the layout from the names of the rank directories. Used for checkpoints without
// arguments.
formats::McaLayout layout_by_names(const fs::path& directory) {
    formats::McaLayout layout;
    const std::regex pattern("mp_rank_([0-9]{2,4})(_([0-9]{3,4}))?");
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        std::smatch match;
        const std::string name = entry.path().filename().string();
        if (!std::regex_match(name, match, pattern)) continue;
        layout.tp = std::max(layout.tp, std::stoi(match[1]) + 1);
        if (match[3].matched) layout.pp = std::max(layout.pp, std::stoi(match[3]) + 1);
    }
    return layout;
}

// Checks that the run's arguments agree with the model's config.
Result<void> check_args(const Source& source, const Json& args) {
    for (const char* key : {"num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads",
                            "kv_channels", "num_query_groups", "rotary_base"}) {
        const auto said = args.find(key);
        const auto own = source.config.native.find(key);
        if (said == args.end() || own == source.config.native.end() || !said->is_number() ||
            !own->is_number() || *said == *own)
            continue;
        // Skip fields that Megatron ignores. With latent attention, these are num_query_groups and
        // kv_channels. Without group_query_attention, num_query_groups is ignored.
        const std::string_view name = key;
        const bool latent = args.value("multi_latent_attention", Json(false)) == true;
        if (name == "num_query_groups" &&
            (latent || args.value("group_query_attention", Json(true)) == false))
            continue;
        if (name == "kv_channels" && latent) continue;
        return fail(ErrorCode::InvalidArgument,
                    source.directory.string() + ": args." + key + " is " + said->dump() +
                        "; the config says " + own->dump(),
                    "give the directory of the HuggingFace model that this checkpoint contains: "
                    "--config MODEL");
    }
    return {};
}

// Splits a fused attention tensor into three: one each for q, k and v. Needed for checkpoint
// version 1, which interleaves the rows of a head (q, k, v, q, k, v, ...): each of the three
// tensors is then every third row of the stored tensor.
std::vector<Stored> interleaved(const Stored& qkv) {
    std::vector<Stored> parts(kInterleaved.size(), qkv);
    for (std::size_t part = 0; part < parts.size(); ++part) {
        parts[part].name += kInterleaved[part];
        parts[part].shape[0] /= static_cast<std::int64_t>(kInterleaved.size());
        parts[part].pieces.clear();
        std::int64_t row = 0;
        for (std::size_t i = part; i < qkv.pieces.size(); i += kInterleaved.size()) {
            parts[part].pieces.push_back(qkv.pieces[i]);
            parts[part].pieces.back().stored_begin[0] = row;
            row += qkv.pieces[i].size[0];
        }
    }
    return parts;
}

// Returns the expected tensors, with attention rows in the order of the given checkpoint version.
Result<std::vector<Stored>> ordered(std::vector<Stored> expected, double version) {
    if (version >= 2) return expected;
    std::vector<Stored> result;
    for (Stored& stored : expected) {
        if (!is_qkv(stored)) {
            result.push_back(std::move(stored));
            continue;
        }
        ROLL_TRY_VOID(check_heads(stored, version));
        if (version >= 1) {
            for (Stored& part : interleaved(stored)) result.push_back(std::move(part));
        } else {
            order_by_part(stored);
            result.push_back(std::move(stored));
        }
    }
    return result;
}

// Adds the family's carried tensors, which are copied unchanged. They are in two files: the file of
// the first rank of the first pipeline stage, and the file of the first rank of the last stage.
Result<void> carry_ranks(Source& source, const fs::path& directory) {
    if (source.family->carried.empty()) return {};
    const formats::McaLayout& layout = source.config.layout;
    for (const int pp : {0, layout.pp - 1}) {
        const fs::path label = formats::mca_rank_file(layout, {.tp = 0, .pp = pp, .ep = 0});
        const auto path = weights_in(directory / label.parent_path().filename());
        if (!path) continue;  // skip the file, because read_ranks() reports that it is missing
        ROLL_TRY(const auto file, TorchFile::open(*path));
        ROLL_TRY_VOID(carry_rank(source, file, pp));
    }
    return {};
}

Result<void> read_ranks(Source& source, const fs::path& directory, std::vector<Stored> expected) {
    const auto sections = sections_by_file(expected);
    RankReader reader(source, std::move(expected));
    for (const auto& [label, names] : sections) {
        const fs::path rank = directory / fs::path(label).parent_path().filename();
        const auto path = weights_in(rank);
        if (!path)
            return fail(ErrorCode::NotFound, (rank / kFiles[0]).string() + " does not exist");
        ROLL_TRY(auto file, TorchFile::open(*path));
        ROLL_TRY_VOID(reader.read(std::make_shared<TorchFile>(std::move(file)), label, names));
    }
    return reader.finish();
}

// Reads the state from the file of rank 0. The name of this rank's directory depends on the layout.
Result<formats::MegatronState> first_state(const fs::path& directory) {
    for (const char* name : {"mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"}) {
        const auto path = weights_in(directory / name);
        if (!path) continue;
        ROLL_TRY(const TorchFile file, TorchFile::open(*path));
        return formats::read_megatron_state(file);
    }
    return fail(ErrorCode::NotFound, (directory / "mp_rank_00").string() + " has no weights");
}

}  // namespace

std::optional<fs::path> megatron_directory(const fs::path& root) {
    std::vector<fs::path> places{root};
    if (const auto iteration = formats::mca_iteration_directory(root)) places.push_back(*iteration);
    for (const fs::path& place : places)
        for (const char* name : {"mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"})
            if (weights_in(place / name)) return place;
    return std::nullopt;
}

namespace {

Result<void> read_megatron(Source& source, const fs::path& directory,
                           const formats::MegatronState& state) {
    ROLL_TRY_VOID(check_args(source, state.args));
    source.config.layout = state.has_args ? state.layout : layout_by_names(directory);
    source.config.grouped_experts = state.args.value("moe_grouped_gemm", Json(false)) == true;
    // RankReader accepts both spellings of the names, so this value does not matter
    source.config.local_names = false;
    const Json mtp = state.args.value("mtp_num_layers", Json());
    ROLL_TRY_VOID(use_tensors(source, mtp.is_number() && mtp > 0));
    ROLL_TRY_VOID(carry_ranks(source, directory));
    const auto padded = state.args.find("padded_vocab_size");
    const std::int64_t rows = vocabulary_of(source);
    const bool pads = padded != state.args.end() && padded->is_number_integer() && *padded > rows;
    if (pads) pad_vocabulary(source, padded->get<std::int64_t>());
    ROLL_TRY(std::vector<Stored> expected, mca_layout(source.native, source.model, source.config));
    if (pads) unpad_vocabulary(source, expected, rows);
    ROLL_TRY(expected, ordered(std::move(expected), state.version));
    return read_ranks(source, directory, std::move(expected));
}

}  // namespace

Result<void> open_megatron(Source& source, const families::Families& families,
                           const fs::path& given) {
    const auto directory = megatron_directory(source.directory);
    ROLL_CHECK(directory);  // detect_format() has already found this directory
    ROLL_TRY(const formats::MegatronState state, first_state(*directory));
    return open_with_config(
        source, families, {source.directory, directory->parent_path(), *directory}, given,
        state.args, [&](Source& one) { return read_megatron(one, *directory, state); });
}

}  // namespace roll::convert
