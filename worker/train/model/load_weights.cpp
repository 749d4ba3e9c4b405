#include "worker/train/model/load_weights.hpp"

#include <cmath>
#include <map>
#include <memory>
#include <set>

#include <ATen/ATen.h>

#include "common/counted.hpp"
#include "worker/convert/adapter/merge.hpp"
#include "worker/convert/plan/gather.hpp"
#include "worker/convert/read/open.hpp"
#include "worker/families/families.hpp"
#include "worker/formats/peft.hpp"
#include "worker/train/model/packed_base.hpp"
#include "worker/train/model/random.hpp"
#include "worker/train/model/read_source.hpp"
#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

namespace fs = std::filesystem;

// A parameter and the chunk that holds it.
struct Held {
    Parameters* parameters = nullptr;
    std::size_t index = 0;
};

// Returns the parameters of `chunks` by name. Two chunks may each have a copy of a parameter.
std::multimap<std::string, Held> by_name(std::span<Parameters* const> chunks) {
    std::multimap<std::string, Held> held;
    for (Parameters* parameters : chunks)
        for (std::size_t i = 0; i < parameters->specs.size(); ++i)
            held.emplace(parameters->specs[i].name, Held{parameters, i});
    return held;
}

bool is_vocabulary(const std::string& name) {
    return name == "embedding.word_embeddings.weight" || name == "output_layer.weight";
}

// Fills the rows that were added, from row `old` on, with noise plus the mean of the rows before
// `old`.
void grow(const at::Tensor& w_VC, std::int64_t old, std::uint64_t seed, const std::string& name) {
    const at::Tensor mean_C = w_VC.narrow(0, 0, old).mean(0, false, at::kDouble);
    // Draw noise for all rows, so that the noise of a row does not depend on `old`
    const at::Tensor noise_VC = at::empty_like(w_VC);
    fill_normal(noise_VC, 1 / std::sqrt(static_cast<double>(w_VC.size(1))), seed, name + " grown");
    const std::int64_t added = w_VC.size(0) - old;
    w_VC.narrow(0, old, added).copy_(noise_VC.narrow(0, old, added) + mean_C);
}

// Returns the rows of a weight that this rank stores.
layout::Rows kept_rows(const Parameters& parameters, std::size_t i) {
    if (parameters.is_split[i]) return parameters.own[i];
    return {0, parameters.specs[i].sizes[0]};
}

// Reads this rank's rows of a weight into its two 16-bit halves. Tensor parallelism must not split
// the weight. Reads each block of rows as float32, then splits the block into the halves.
void read_halves(const convert::Source& source, const convert::TargetTensor& target,
                 const Parameters& parameters, std::size_t i, SourceReader& reader) {
    const layout::Rows rows = kept_rows(parameters, i);
    std::vector<std::int64_t> begin_of_rows(parameters.specs[i].sizes.size());
    std::vector<std::int64_t> sizes = parameters.specs[i].sizes;
    const std::int64_t row = c10::multiply_integers(sizes) / sizes[0];
    begin_of_rows[0] = rows.begin;
    sizes[0] = rows.count;
    const convert::TargetTensor own = convert::block_of(target, begin_of_rows, sizes);
    reader.note(own);
    for_blocks(rows.count, row * std::int64_t{sizeof(float)},
               [&](std::int64_t begin, std::int64_t end) {
                   const auto size = static_cast<std::size_t>((end - begin) * row);
                   const auto block = std::make_unique_for_overwrite<float[]>(size);
                   convert::gather_rows(source, own, begin, end,
                                        reinterpret_cast<std::byte*>(block.get()));
                   set_halves(parameters, i, (rows.begin + begin) * row, {block.get(), size});
               });
}

// Reads the weights of one parameter. If the model's vocabulary is larger than the stored one, adds
// rows. Returns the number of added rows.
Result<std::int64_t> read_into(const convert::Source& source, const convert::TargetTensor& target,
                               const Parameters& parameters, std::size_t i, std::uint64_t seed,
                               SourceReader& reader) {
    const tensor::Shape& shape = target.info.shape;
    const ParameterSpec& spec = parameters.specs[i];
    const std::vector<std::int64_t>& sizes = whole_sizes(spec);
    const bool grows = is_vocabulary(target.info.name) && sizes.size() == 2 && shape.size() == 2 &&
                       shape[1] == sizes[1] && shape[0] < sizes[0];
    if (!grows && sizes != shape)
        return fail(ErrorCode::InvalidArgument,
                    source.directory.string() + ": " + target.info.name + " has shape " +
                        tensor::to_string(shape) + "; the job's model has " +
                        tensor::to_string(sizes));
    if (spec.form.is_packed()) {
        const at::Tensor whole = at::empty(sizes, main_type(parameters));
        reader.read_rows(target, whole);
        set_packed(parameters, i, whole);
    } else if (grows) {
        // the new rows depend on all stored rows
        const at::Tensor whole = at::empty(sizes, main_type(parameters));
        reader.read_rows(target, whole.narrow(0, 0, shape[0]));
        grow(whole, shape[0], seed, target.info.name);
        const at::Tensor own = main_to_write(parameters, i);
        copy_from_whole(spec, whole, own);
        set_main(parameters, i, own);
    } else if (parameters.flat_rest.defined() && spec.parts.empty()) {
        read_halves(source, target, parameters, i, reader);
    } else {
        const at::Tensor own = main_to_write(parameters, i);
        reader.read_part(target, spec, kept_rows(parameters, i), own);
        set_main(parameters, i, own);
    }
    convert::release(source, target);
    return grows ? sizes[0] - shape[0] : 0;
}

std::string title_of(convert::Format format) {
    if (format == convert::Format::Hf) return "HuggingFace";
    if (format == convert::Format::Mca) return "MCA";
    return convert::name_of(format);
}

std::string decision(const convert::Source& source, std::int64_t grown) {
    std::string text = title_of(source.format);
    const formats::McaLayout& layout = source.config.layout;
    const std::pair<const char*, int> axes[] = {
        {"tp", layout.tp}, {"pp", layout.pp}, {"ep", layout.ep}};
    std::string split;
    for (const auto& [name, size] : axes)
        if (size > 1) split += " " + std::string(name) + " " + std::to_string(size);
    if (!split.empty()) text += " of" + split;
    if (grown > 0) text += "; " + counted(grown, "vocabulary row") + " added";
    return text;
}

}  // namespace

void check_base(const fs::path& adapter, const fs::path& directory, const std::string& key) {
    const Json config = of_disk(formats::read_adapter_config(adapter));
    const Json said = config.value("base_model_name_or_path", Json());
    if (!said.is_string() || said.get<std::string>().empty()) return;
    const fs::path base = said.get<std::string>();
    std::error_code error;
    if (fs::equivalent(base, directory, error)) return;
    std::string cached = "models--" + base.generic_string();
    for (std::size_t at; (at = cached.find('/')) != std::string::npos;) cached.replace(at, 1, "--");
    for (const fs::path& folder : directory)
        if (folder == cached || (!folder.empty() && folder == base.filename())) return;
    throw RankFailure(2, key + ": " + adapter.string() + " is an adapter of " + base.string() +
                             ", not of model.from " + directory.string() +
                             "; set model.from to the adapter's base model, or correct "
                             "base_model_name_or_path in the adapter's adapter_config.json");
}

std::string load_weights(const fs::path& directory, std::span<Parameters* const> chunks,
                         const std::vector<ParameterSpec>& whole, std::uint64_t seed,
                         const std::vector<std::string>& adapters, const std::string& state) {
    const families::Families families = need(families::Families::load());
    convert::Source source = of_disk(convert::open_source(directory, families, {.state = state}));
    for (const std::string& adapter : adapters) {
        check_base(adapter, directory, "model.adapters");
        of_disk(convert::attach_adapter(source, adapter, convert::Folding::In));
    }
    const convert::Plan plan = plan_whole(source, dtype_of(*chunks[0]));
    std::set<std::string> missing;
    for (const ParameterSpec& spec : whole)
        if (spec.lora != LoraRole::Factor) missing.insert(spec.name);
    // A reward model has a score layer in place of the output layer. If the directory's model has
    // no score layer, the job's score layer keeps its random initial values.
    const bool gets_score =
        missing.contains(families::kScore) && !source.model.number.contains(families::kScore);
    if (gets_score) missing.erase(families::kScore);
    const std::multimap<std::string, Held> held = by_name(chunks);
    SourceReader reader(source);
    std::int64_t grown = 0;
    for (const convert::TargetTensor& target : plan.tensors) {
        const std::string& name = target.info.name;
        if (gets_score && name == "output_layer.weight") continue;
        if (missing.erase(name) == 0)
            throw RankFailure(2, directory.string() +
                                     " has a tensor that the job's model does not have: " + name);
        const auto [begin, end] = held.equal_range(name);
        for (auto one = begin; one != end; ++one) {
            const auto& [parameters, index] = one->second;
            grown = std::max(grown,
                             of_disk(read_into(source, target, *parameters, index, seed, reader)));
        }
    }
    if (!missing.empty())
        throw RankFailure(2, directory.string() + " has no tensor " + *missing.begin());
    reader.compare_replicas(plan);
    std::string text = decision(source, grown) + (gets_score ? "; the score layer is new" : "");
    if (!adapters.empty()) text += "; " + counted(adapters.size(), "adapter") + " merged";
    return text;
}

std::string load_weights(const fs::path& directory, Parameters& parameters) {
    Parameters* const chunks[] = {&parameters};
    return load_weights(directory, chunks, parameters.specs);
}

}  // namespace roll::train
