#include "worker/plan/size_text.hpp"

#include <fmt/format.h>

namespace roll::plan {

std::string scaled(double value, double step, std::initializer_list<const char*> units) {
    auto unit = units.begin();
    for (; value >= step && unit + 1 != units.end(); ++unit) value /= step;
    return value < 100 ? fmt::format("{:.3g} {}", value, *unit)
                       : fmt::format("{:.0f} {}", value, *unit);
}

std::string bytes_text(std::int64_t bytes) {
    return scaled(static_cast<double>(bytes), 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

}  // namespace roll::plan
