#include "worker/convert/stages.hpp"

#include <cctype>
#include <string>

namespace roll::convert {
namespace {

tl::unexpected<Error> invalid(std::string what) {
    return fail(ErrorCode::InvalidArgument, std::move(what));
}

// The number of layers in one part of a layout string: "E,t*3" is 3. E, L and m name the embedding,
// the loss and a multi-token head, which are where they are.
Result<std::int64_t> layers_in(std::string_view part, const std::string& layout) {
    std::int64_t layers = 0;
    std::size_t at = 0;
    while (at < part.size()) {
        const char symbol = part[at++];
        if (symbol == ',' || symbol == ' ') continue;
        std::int64_t count = 1;
        if (at < part.size() && part[at] == '*') {
            const std::size_t begin = ++at;
            while (at < part.size() && std::isdigit(static_cast<unsigned char>(part[at])) != 0)
                ++at;
            if (begin == at || at - begin > 5)
                return invalid("layout \"" + layout + "\" needs a number after *");
            count = std::stoll(std::string(part.substr(begin, at - begin)));
        }
        if (symbol == 't')
            layers += count;
        else if (symbol != 'E' && symbol != 'L' && symbol != 'm')
            return invalid("layout \"" + layout + "\" has a '" + symbol +
                           "'; it may have E, t, m, L");
    }
    return layers;
}

// The layers of each of pp * vpp parts, in the order of the model.
Result<std::vector<std::int64_t>> counts_of(std::int64_t layers, const formats::McaLayout& layout) {
    const std::int64_t parts = std::int64_t{layout.pp} * layout.vpp;
    std::vector<std::int64_t> counts;
    if (!layout.pipeline.empty()) {
        std::string_view rest = layout.pipeline;
        for (;;) {
            const std::size_t bar = std::min(rest.find('|'), rest.size());
            ROLL_TRY(const std::int64_t count, layers_in(rest.substr(0, bar), layout.pipeline));
            counts.push_back(count);
            if (bar == rest.size()) break;
            rest.remove_prefix(bar + 1);
        }
        if (static_cast<std::int64_t>(counts.size()) != parts)
            return invalid("layout \"" + layout.pipeline + "\" has " +
                           std::to_string(counts.size()) + " parts; pp " +
                           std::to_string(layout.pp) + " x vpp " + std::to_string(layout.vpp) +
                           " needs " + std::to_string(parts));
        return counts;
    }
    const std::int64_t total =
        layers + (layout.account_for_embedding ? 1 : 0) + (layout.account_for_loss ? 1 : 0);
    if (total % parts != 0)
        return invalid("num_layers " + std::to_string(layers) +
                       (total == layers ? ""
                                        : " (" + std::to_string(total) +
                                              " with the embedding and loss counted)") +
                       " does not divide by pp " + std::to_string(layout.pp) + " x vpp " +
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
        if (counts[part] < 0) return invalid("a pipeline part would hold less than no layer");
        const auto pp = static_cast<std::size_t>(layout.pp);
        ranges[part % pp][part / pp] = {next, next + counts[part]};
        next += counts[part];
    }
    if (next != layers)
        return invalid("layout \"" + layout.pipeline + "\" holds " + std::to_string(next) +
                       " layers; the model has " + std::to_string(layers));
    return ranges;
}

}  // namespace roll::convert
