#include "common/spec/parallel.hpp"

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

}  // namespace roll::spec
