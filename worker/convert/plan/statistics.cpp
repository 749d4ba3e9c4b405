#include "worker/convert/plan/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "worker/convert/plan/gather.hpp"

namespace roll::convert {
namespace {

constexpr std::size_t kFirst = 8;

// Computes the mean and the sum of squared deviations by Welford's recurrence, which is accurate
// for tensors of any size.
class Tally {
  public:
    explicit Tally(Statistics& into) : into_(into) {}

    void add(double value) {
        ++into_.elements;
        if (into_.first.size() < kFirst) into_.first.push_back(value);
        if (!std::isfinite(value)) {
            ++into_.not_finite;
            return;
        }
        if (value == 0) ++into_.zeros;
        into_.min = count_ == 0 ? value : std::min(into_.min, value);
        into_.max = count_ == 0 ? value : std::max(into_.max, value);
        ++count_;
        const double gap = value - into_.mean;
        into_.mean += gap / static_cast<double>(count_);
        squares_ += gap * (value - into_.mean);
    }
    void finish() {
        if (count_ > 1) into_.deviation = std::sqrt(squares_ / static_cast<double>(count_ - 1));
    }

  private:
    Statistics& into_;
    std::int64_t count_ = 0;
    double squares_ = 0;
};

}  // namespace

Result<Statistics> statistics_of(const Source& source, const std::string& name) {
    const auto number = source.model.number.find(name);
    if (number == source.model.number.end())
        return fail(
            ErrorCode::InvalidArgument, "the model has no tensor " + name,
            "use a name that rollctl inspect lists for the HuggingFace checkpoint of this model");
    const std::vector<Stored> one{whole_tensor(source.model, number->second)};
    ROLL_TRY(const Plan plan, make_plan(source, one, std::nullopt));
    if (plan.tensors.empty()) return fail(ErrorCode::Corrupt, name + " does not exist");
    const TargetTensor& target = plan.tensors.front();
    if (!tensor::is_castable(target.info.dtype))
        return fail(ErrorCode::InvalidArgument, name + " is of type " + name_of(target.info.dtype) +
                                                    ", for which Roll computes no statistics");
    Statistics statistics;
    statistics.name = name;
    statistics.dtype = target.info.dtype;
    statistics.shape = target.info.shape;
    const auto size = static_cast<std::size_t>(tensor::bits_of(target.info.dtype) / 8);
    Tally tally(statistics);
    ROLL_TRY_VOID(gather(source, target, [&](std::span<const std::byte> window) -> Result<void> {
        for (std::size_t at = 0; at + size <= window.size(); at += size)
            tally.add(tensor::load_float(target.info.dtype, &window[at]));
        return {};
    }));
    tally.finish();
    return statistics;
}

Json to_json(const Statistics& of) {
    const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    Json json{{"schema", "roll.statistics/1"},
              {"name", of.name},
              {"dtype", name_of(of.dtype)},
              {"shape", of.shape},
              {"elements", of.elements},
              {"zeros", of.zeros},
              {"not_finite", of.not_finite},
              {"min", of.min},
              {"max", of.max},
              {"mean", of.mean},
              {"std", of.deviation},
              {"first", Json::array()}};
    for (const double value : of.first) json["first"].push_back(number(value));
    return json;
}

std::string to_text(const Statistics& of) {
    std::string first;
    for (const double value : of.first) first += fmt::format(" {:g}", value);
    return fmt::format(
        "{} {} {}: min {:g} max {:g} mean {:g} std {:g}; {} of {} are zero, {} not finite\n"
        "first:{}\n",
        of.name, name_of(of.dtype), tensor::to_string(of.shape), of.min, of.max, of.mean,
        of.deviation, of.zeros, of.elements, of.not_finite, first);
}

}  // namespace roll::convert
