#include "common/spec/train/parallel.hpp"

#include "common/enum_name.hpp"

namespace roll::spec {
namespace {

// The names are in the order of the enumerators.
constexpr std::array kSchedules = {"auto",  "1f1b", "interleaved", "gpipe",
                                   "zb-h1", "zb-v", "dualpipe-v"};
constexpr std::array kRecomputes = {"none", "attention", "mlp", "attention+mlp", "full", "auto"};

}  // namespace

const char* name_of(Schedule schedule) { return name_in(kSchedules, schedule); }

std::optional<Schedule> schedule_named(std::string_view name) {
    return find_name<Schedule>(kSchedules, name);
}

const char* name_of(Recompute recompute) { return name_in(kRecomputes, recompute); }

std::optional<Recompute> recompute_named(std::string_view name) {
    return find_name<Recompute>(kRecomputes, name);
}

}  // namespace roll::spec
