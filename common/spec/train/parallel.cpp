#include "common/spec/train/parallel.hpp"

#include <array>
#include <utility>

namespace roll::spec {
namespace {

constexpr std::array<std::pair<const char*, Schedule>, 7> kPipelineNames{
    {{"auto", Schedule::Auto},
     {"1f1b", Schedule::OneForwardOneBackward},
     {"interleaved", Schedule::Interleaved},
     {"gpipe", Schedule::Gpipe},
     {"zb-h1", Schedule::ZeroBubbleH1},
     {"zb-v", Schedule::ZeroBubbleV},
     {"dualpipe-v", Schedule::DualPipeV}}};

constexpr std::array<std::pair<const char*, Recompute>, 6> kRecomputeNames{
    {{"none", Recompute::None},
     {"attention", Recompute::Attention},
     {"mlp", Recompute::Mlp},
     {"attention+mlp", Recompute::AttentionMlp},
     {"full", Recompute::Full},
     {"auto", Recompute::Auto}}};

}  // namespace

const char* name_of(Schedule schedule) {
    for (const auto& [name, value] : kPipelineNames)
        if (value == schedule) return name;
    return "";
}

std::optional<Schedule> schedule_named(std::string_view name) {
    for (const auto& [known, value] : kPipelineNames)
        if (known == name) return value;
    return std::nullopt;
}

const char* name_of(Recompute recompute) {
    for (const auto& [name, value] : kRecomputeNames)
        if (value == recompute) return name;
    return "";
}

std::optional<Recompute> recompute_named(std::string_view name) {
    for (const auto& [known, value] : kRecomputeNames)
        if (known == name) return value;
    return std::nullopt;
}

}  // namespace roll::spec
