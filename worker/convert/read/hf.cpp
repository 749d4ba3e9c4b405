#include "worker/convert/read/hf.hpp"

#include <algorithm>
#include <set>

#include "worker/convert/checkpoint/config.hpp"
#include "worker/convert/checkpoint/matcher.hpp"
#include "worker/convert/checkpoint/variants.hpp"
#include "worker/convert/read/bitsandbytes.hpp"
#include "worker/convert/read/kept.hpp"
#include "worker/convert/read/quantized.hpp"
#include "worker/formats/hf.hpp"

namespace roll::convert {
namespace {

namespace fs = std::filesystem;

// Adds the tied output layer as an optional copy of the embedding. It is optional because only some
// files store it.
void expect_tied_output(std::vector<Stored>& expected, const Source& source) {
    const auto tied = tied_output(source);
    if (!tied) return;
    Stored copy = whole_tensor(source.model, tied->embedding);
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
    const bool has_bits = is_bitsandbytes(source.config.hf_config);
    BitsTensors bits;
    const auto take = [&](const std::string& file,
                          const tensor::StridedView& view) -> Result<bool> {
        ROLL_TRY(const bool taken, matcher.take({}, file, view.info.name, view));
        if (taken) return true;
        return matcher.take({}, file, other_spelling(*source.family, view.info.name), view);
    };
    for (const std::string& file : weights.files) {
        ROLL_TRY(formats::HfFile opened, formats::open_hf_file(source.directory / file));
        source.storage.files.push_back(opened.keep);
        for (const tensor::StridedView& view : opened.tensors) {
            const std::string& name = view.info.name;
            if (!seen.insert(name).second)
                return fail(ErrorCode::Corrupt, (source.directory / file).string() + ": " + name +
                                                    " is also in another weight file; remove the "
                                                    "file that does not belong to the model");
            if (has_bits && bits.take(file, view)) continue;
            ROLL_TRY_VOID(check_not_quantized(source.directory / file, view.info));
            ROLL_TRY(const bool taken, take(file, view));
            if (taken) continue;
            if (const std::string scaled = scaled_by(name); !scaled.empty())
                scales.emplace(scaled, view);
            else if (is_dropped(*source.family, name))
                source.matching.dropped.push_back(
                    {file, name, "the family file drops this tensor"});
            else
                matcher.add_unexpected(file, name);
        }
    }
    for (const auto& [name, file] : weights.index)
        if (!seen.contains(name))
            return fail(ErrorCode::Corrupt,
                        (source.directory / file).string() + ": " + name +
                            " is missing, although the index names it; copy the file again");
    const auto add_bits = [&](const std::string& file,
                              const tensor::StridedView& view) -> Result<void> {
        ROLL_TRY(const bool taken, take(file, view));
        if (!taken) matcher.add_unexpected(file, view.info.name);
        return {};
    };
    if (has_bits) ROLL_TRY_VOID(bits.attach(source, add_bits));
    ROLL_TRY_VOID(matcher.finish());
    ROLL_TRY_VOID(settle_copies(source, seen));
    ROLL_TRY_VOID(keep_differing_copies(source, seen));
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

// Returns true if the files contain at least one of the multi-token prediction layers in the
// config.
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

}  // namespace

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

}  // namespace roll::convert
