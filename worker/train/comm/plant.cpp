#include "worker/train/comm/plant.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace roll::train {
namespace {

// Returns the result that this rank would get if no other rank took part. For a collective, this is
// the rank's own input. For an all-gather, the result has this input, and zeros for the other
// ranks' parts. A received message is zeros.
at::Tensor own(const Delivery& to) {
    if (!to.transfer.is_collective()) return at::zeros_like(to.right);
    const at::Tensor& input = to.inputs[static_cast<std::size_t>(to.rank)];
    if (to.transfer.kind != Transfer::Kind::AllGather) return input;
    const at::Tensor all = at::zeros_like(to.right);
    all.view(-1).narrow(0, to.rank * input.numel(), input.numel()).copy_(input.view(-1));
    return all;
}

at::Tensor half_sum(const at::TensorList& inputs, int rank) {
    const auto half = static_cast<int>(inputs.size() / 2);
    at::Tensor sum = at::zeros_like(inputs[0]);
    for (int other = 0; other < static_cast<int>(inputs.size()); ++other)
        if ((other < half) == (rank < half)) sum.add_(inputs[static_cast<std::size_t>(other)]);
    return sum;
}

constexpr std::array<std::pair<const char*, Plant::Kind>, 6> kKinds = {
    {{"drop", Plant::Kind::Drop},
     {"double", Plant::Kind::Double},
     {"average", Plant::Kind::Average},
     {"regroup", Plant::Kind::Regroup},
     {"delay", Plant::Kind::Delay},
     {"stale", Plant::Kind::Stale}}};

}  // namespace

Result<Plant> parse_plant(const std::string& words) {
    std::vector<std::string> parts;
    std::istringstream in(words);
    for (std::string part; std::getline(in, part, '|');) parts.push_back(part);
    const auto refuse = [&] {
        return fail(ErrorCode::InvalidArgument,
                    "\"" + words +
                        "\" does not describe a bug to plant; allowed: KIND|SITE[|LAYER[|GROUP]]");
    };
    if (parts.size() < 2 || parts.size() > 4) return refuse();
    parts.resize(4);
    const std::string& layer = parts[2];
    const auto kind =
        std::ranges::find(kKinds, parts[0], [](const auto& one) { return one.first; });
    const std::optional<Site> site = site_named(parts[1]);
    if (kind == kKinds.end() || !site) return refuse();
    Plant plant{kind->second, *site, -1, parts[3]};
    if (layer.empty()) return plant;
    const auto [end, error] =
        std::from_chars(layer.data(), layer.data() + layer.size(), plant.layer);
    if (error != std::errc() || end != layer.data() + layer.size()) return refuse();
    return plant;
}

bool Plant::hits(const std::string& group_name, const Tag& tag) const {
    return tag.site == site && (layer < 0 || tag.layer == layer) && (!again || tag.again) &&
           group_name.starts_with(group);
}

at::Tensor planted(const Plant& plant, const Delivery& to) {
    switch (plant.kind) {
        case Plant::Kind::Drop: return own(to);
        case Plant::Kind::Double: return to.right * 2;
        case Plant::Kind::Average: return to.right / static_cast<double>(to.inputs.size());
        case Plant::Kind::Regroup: return half_sum(to.inputs, to.rank);
        case Plant::Kind::Delay: return to.before.defined() ? to.before : at::zeros_like(to.right);
        case Plant::Kind::Stale: return to.before.defined() ? to.before : to.right;
        case Plant::Kind::Change: return plant.change(to);
    }
    return to.right;
}

}  // namespace roll::train
