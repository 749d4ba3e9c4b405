#include "worker/layout/stages.hpp"

#include <algorithm>
#include <string>

#include "common/counted.hpp"
#include "common/spec/train/pipeline_layout.hpp"

namespace roll::layout {
namespace {

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what));
}

// Returns the number of layers of each of the pp * vpp chunks, in model order. The layout sets the
// number of layers of the first or the last stage. The other stages share the remaining layers
// equally. The chunks of a stage have equal numbers of layers.
Result<std::vector<std::int64_t>> uneven_counts(std::int64_t layers,
                                                const formats::McaLayout& layout) {
    if (layout.account_for_embedding || layout.account_for_loss)
        return invalid(
            "the layout sets the number of layers of the first or last stage, and it also counts "
            "the embedding or the loss as a layer; Megatron accepts only one of these two "
            "settings");
    const std::int64_t others =
        layout.pp - (layout.first_layers > 0 ? 1 : 0) - (layout.last_layers > 0 ? 1 : 0);
    const std::int64_t rest = layers - layout.first_layers - layout.last_layers;
    const std::string numbers = "num_layers " + std::to_string(layers) + " minus " +
                                std::to_string(layout.first_layers) + " in the first and " +
                                std::to_string(layout.last_layers) + " in the last stage";
    if (others < 0 || rest < 0 || (others == 0 ? rest : rest % others) != 0)
        return invalid(numbers +
                       ": the remaining layers cannot be divided evenly among the other " +
                       counted(others, "stage") + " of pp " + std::to_string(layout.pp));
    std::vector<std::int64_t> stages(static_cast<std::size_t>(layout.pp),
                                     others == 0 ? 0 : rest / others);
    if (layout.first_layers > 0) stages.front() = layout.first_layers;
    if (layout.last_layers > 0) stages.back() = layout.last_layers;
    std::vector<std::int64_t> counts;
    for (int chunk = 0; chunk < layout.vpp; ++chunk)
        for (const std::int64_t stage : stages) {
            if (stage % layout.vpp != 0)
                return invalid(numbers + ": a stage of " + counted(stage, "layer") +
                               " is not divisible by vpp " + std::to_string(layout.vpp));
            counts.push_back(stage / layout.vpp);
        }
    return counts;
}

// Returns the number of layers of each of the pp * vpp chunks, in model order.
Result<std::vector<std::int64_t>> counts_of(std::int64_t layers, const formats::McaLayout& layout) {
    const std::int64_t parts = std::int64_t{layout.pp} * layout.vpp;
    std::vector<std::int64_t> counts;
    if (!layout.pipeline.empty()) {
        const auto read = spec::layout_parts(layout.pipeline);
        if (!read) return invalid("layout \"" + layout.pipeline + "\" " + read.error().message);
        for (const std::string& part : *read) counts.push_back(std::ranges::count(part, 't'));
        if (static_cast<std::int64_t>(counts.size()) != parts)
            return invalid("layout \"" + layout.pipeline + "\" has " +
                           counted(counts.size(), "part") + "; pp " + std::to_string(layout.pp) +
                           " x vpp " + std::to_string(layout.vpp) + " needs " +
                           std::to_string(parts));
        return counts;
    }
    if (layout.first_layers > 0 || layout.last_layers > 0) return uneven_counts(layers, layout);
    const std::int64_t total =
        layers + (layout.account_for_embedding ? 1 : 0) + (layout.account_for_loss ? 1 : 0);
    if (total % parts != 0)
        return invalid("num_layers " + std::to_string(layers) +
                       (total == layers ? ""
                                        : " (" + std::to_string(total) +
                                              " with the embedding and loss counted)") +
                       " is not divisible by pp " + std::to_string(layout.pp) + " x vpp " +
                       std::to_string(layout.vpp));
    counts.assign(static_cast<std::size_t>(parts), total / parts);
    if (layout.account_for_embedding) --counts.front();
    if (layout.account_for_loss) --counts.back();
    return counts;
}

}  // namespace

Result<std::vector<std::vector<LayerRange>>> split_layers(std::int64_t layers,
                                                          const formats::McaLayout& layout) {
    ROLL_TRY(const std::vector<std::int64_t> counts, counts_of(layers, layout));
    std::vector<std::vector<LayerRange>> ranges(
        static_cast<std::size_t>(layout.pp),
        std::vector<LayerRange>(static_cast<std::size_t>(layout.vpp)));
    std::int64_t next = 0;
    for (std::size_t part = 0; part < counts.size(); ++part) {
        if (counts[part] < 0)
            return invalid(
                "a pipeline stage would have -1 layers, because the embedding or the loss counts "
                "as one of its layers; use a smaller pp or vpp");
        const auto pp = static_cast<std::size_t>(layout.pp);
        ranges[part % pp][part / pp] = {next, next + counts[part]};
        next += counts[part];
    }
    if (next != layers)
        return invalid("layout \"" + layout.pipeline + "\" holds " + counted(next, "layer") +
                       "; the model has " + std::to_string(layers));
    return ranges;
}

}  // namespace roll::layout
