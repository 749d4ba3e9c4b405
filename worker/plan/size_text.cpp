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

std::string count_text(std::int64_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

}  // namespace roll::plan
