#include "worker/convert/plan/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "worker/convert/plan/gather.hpp"

namespace roll::convert {
namespace {

// Returns the bytes of a whole tensor. A diff has two tensors in memory at a time.
Result<std::vector<std::byte>> tensor_bytes(const Source& source, const TargetTensor& target) {
    std::vector<std::byte> bytes;
    const auto append = [&](std::span<const std::byte> window) -> Result<void> {
        bytes.insert(bytes.end(), window.begin(), window.end());
        return {};
    };
    ROLL_TRY_VOID(gather(source, target, append));
    return bytes;
}

// Maps an element to an integer. The order of the integers is the order of the elements' values,
// and the integers of two neighbouring values differ by 1. +0 and -0 map to the same integer.
std::int64_t ordered(const std::byte* element, std::size_t size) {
    std::uint64_t bits = 0;
    // copies the low bytes, because the machine is little-endian
    std::memcpy(&bits, element, size);
    const std::uint64_t sign = std::uint64_t{1} << (8 * size - 1);
    const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::int64_t ulps_between(const std::byte* a, const std::byte* b, std::size_t size) {
    std::int64_t gap = 0;
    if (__builtin_sub_overflow(ordered(a, size), ordered(b, size), &gap)) return INT64_MAX;
    return std::abs(gap);
}

void measure(const std::vector<std::byte>& a, const std::vector<std::byte>& b, tensor::DType dtype,
             Difference& difference) {
    const auto size = static_cast<std::size_t>(std::max(tensor::bits_of(dtype), 8)) / 8;
    double largest = 0;
    for (std::size_t at = 0; at + size <= b.size(); at += size) {
        const bool differs = std::memcmp(&a[at], &b[at], size) != 0;
        if (differs) ++difference.elements;
        if (!tensor::is_castable(dtype)) continue;
        const double y = tensor::load_float(dtype, &b[at]);
        if (std::isfinite(y)) largest = std::max(largest, std::fabs(y));
        if (differs) {
            const double gap = std::fabs(tensor::load_float(dtype, &a[at]) - y);
            difference.max_abs = std::isnan(gap) ? INFINITY : std::max(difference.max_abs, gap);
            const std::int64_t ulps =
                std::isnan(gap) ? INT64_MAX : ulps_between(&a[at], &b[at], size);
            difference.max_ulp = std::max(difference.max_ulp, ulps);
        }
    }
    difference.max_rel = largest > 0 ? difference.max_abs / largest : 0;
}

// Returns the tolerance for tensors to which native files add a constant, because both adding and
// subtracting the constant round the value. The tolerance suffices for values up to 2.
double rounding_of(tensor::DType dtype) {
    switch (dtype) {
        case tensor::DType::BF16: return std::ldexp(1, -7);
        case tensor::DType::F16: return std::ldexp(1, -10);
        case tensor::DType::F32: return std::ldexp(1, -23);
        default: return std::ldexp(1, -52);
    }
}

Result<void> compare_one(const Source& first, TargetTensor a, const Source& second,
                         const TargetTensor& b, bool cast, Diff& diff) {
    ++diff.tensors;
    Difference difference{a.info.name};
    if (cast && tensor::is_castable(a.info.dtype) && tensor::is_castable(b.info.dtype))
        a.info.dtype = b.info.dtype;
    if (a.info.dtype != b.info.dtype || a.info.shape != b.info.shape) {
        difference.elements = tensor::element_count(b.info.shape).value_or(0);
        difference.max_abs = INFINITY;
        difference.max_ulp = INT64_MAX;
        difference.unlike =
            fmt::format("{} [{}] in the first, {} [{}] in the second",
                        tensor::name_of(a.info.dtype), fmt::join(a.info.shape, ", "),
                        tensor::name_of(b.info.dtype), fmt::join(b.info.shape, ", "));
        difference.castable = a.info.shape == b.info.shape && tensor::is_castable(a.info.dtype) &&
                              tensor::is_castable(b.info.dtype);
        diff.differences.push_back(difference);
        return {};
    }
    ROLL_TRY(const auto a_bytes, tensor_bytes(first, a));
    ROLL_TRY(const auto b_bytes, tensor_bytes(second, b));
    if (a_bytes == b_bytes) return {};
    measure(a_bytes, b_bytes, b.info.dtype, difference);
    const auto number = first.model.number.find(a.info.name);
    const bool added = number != first.model.number.end() &&
                       first.model.additions.contains(number->second) &&
                       first.format != second.format;
    if (added && difference.max_abs <= rounding_of(b.info.dtype)) return {};
    diff.differences.push_back(difference);
    return {};
}

using ByName = std::map<std::string, const TargetTensor*>;

// Returns the plan's tensors by name. A tensor with a second name is listed under both names.
ByName by_name(const Source& source, const Plan& plan) {
    ByName tensors;
    for (const TargetTensor& target : plan.tensors) tensors[target.info.name] = &target;
    for (const Model::SecondName& copy : source.model.copies) {
        const auto original =
            tensors.find(source.model.tensors[static_cast<std::size_t>(copy.hf)].name);
        if (original != tensors.end()) tensors.emplace(copy.name, original->second);
    }
    return tensors;
}

// Returns the tensor with its name replaced by `name`.
TargetTensor renamed(TargetTensor tensor, const std::string& name) {
    tensor.info.name = name;
    return tensor;
}

}  // namespace

Result<Diff> diff(const Source& first, const Source& second, bool cast,
                  const std::function<bool()>& stopped, Share share) {
    ROLL_TRY(const Plan a, make_plan(first, hf_layout(first.model), std::nullopt));
    ROLL_TRY(const Plan b, make_plan(second, hf_layout(second.model), std::nullopt));
    const ByName all_first = by_name(first, a), all_second = by_name(second, b);
    std::set<std::string> in_second;
    for (const TargetTensor& target : b.tensors) in_second.insert(target.info.name);
    Diff diff;
    for (std::size_t number = 0; number < a.tensors.size(); ++number) {
        const TargetTensor& target = a.tensors[number];
        if (stopped()) return fail(ErrorCode::Unavailable, "stopped");
        const auto found = all_second.find(target.info.name);
        if (found == all_second.end()) {
            diff.only_first.push_back(target.info.name);
            continue;
        }
        if (share.has(number))
            ROLL_TRY_VOID(compare_one(first, target, second, *found->second, cast, diff));
        in_second.erase(target.info.name);
    }
    for (const std::string& name : in_second) {
        const auto copy = all_first.find(name);
        if (copy == all_first.end())
            diff.only_second.push_back(name);
        else if (share.index == 0)
            ROLL_TRY_VOID(compare_one(first, renamed(*copy->second, name), second,
                                      *all_second.at(name), cast, diff));
    }
    return diff;
}

Result<void> check_copies(const Source& source) {
    if (source.model.copies.empty()) return {};
    ROLL_TRY(const Plan plan, make_plan(source, hf_layout(source.model), std::nullopt));
    for (const Comparison& comparison : plan.comparisons)
        if (source.tensors[comparison.second].stored.optional)
            ROLL_TRY_VOID(compare(source, comparison));
    return {};
}

}  // namespace roll::convert
