#include "worker/convert/adapter/diff.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "worker/convert/adapter/native.hpp"
#include "worker/convert/adapter/tensors.hpp"

namespace roll::convert {
namespace {

using formats::Adapter;
using formats::LoraModule;

// Tolerance for scales, because configs store alpha as a decimal number.
constexpr double kScaleRounding = 1e-9;

// Compares the scales of modules that both adapters have.
std::vector<Difference> scale_differences(const Adapter& first, const Adapter& second) {
    std::map<std::string, double> scales;
    for (const LoraModule& module : first.modules) scales[module.module] = module.scale;
    std::vector<Difference> differences;
    for (const LoraModule& module : second.modules) {
        const auto found = scales.find(module.module);
        if (found == scales.end()) continue;
        const double gap = std::fabs(found->second - module.scale);
        const double relative = gap / std::max(std::fabs(module.scale), kScaleRounding);
        if (relative > kScaleRounding)
            differences.push_back({module.module + " scale", 1, gap, relative, INT64_MAX});
    }
    return differences;
}

Result<Diff> diff_adapter(const Adapter& first, const Adapter& second, bool cast,
                          const std::function<bool()>& stopped) {
    ROLL_TRY(Diff found,
             diff(source_of(peft_tensors(first)), source_of(peft_tensors(second)), cast, stopped));
    const auto scales = scale_differences(first, second);
    found.differences.insert(found.differences.end(), scales.begin(), scales.end());
    return found;
}

void append(Diff& all, const std::string& front, Diff found) {
    all.tensors += found.tensors;
    for (Difference& one : found.differences) {
        one.name = front + one.name;
        all.differences.push_back(std::move(one));
    }
    for (const std::string& name : found.only_first) all.only_first.push_back(front + name);
    for (const std::string& name : found.only_second) all.only_second.push_back(front + name);
}

}  // namespace

Result<Diff> diff_adapters(const std::vector<OpenedAdapter>& first,
                           const std::vector<OpenedAdapter>& second, bool cast,
                           const std::function<bool()>& stopped) {
    std::map<std::string, const Adapter*> in_second;
    for (const auto& [place, adapter] : second) in_second[place.name] = &adapter;
    Diff all;
    for (const auto& [place, adapter] : first) {
        const auto found = in_second.find(place.name);
        if (found == in_second.end()) {
            all.only_first.push_back(place.name);
            continue;
        }
        ROLL_TRY(Diff one, diff_adapter(adapter, *found->second, cast, stopped));
        append(all, place.name + ": ", std::move(one));
        in_second.erase(found);
    }
    for (const auto& [name, adapter] : in_second) all.only_second.push_back(name);
    return all;
}

Result<void> check_written(const Adapter& adapter, const Source& tensors,
                           const AdapterPlace& written, const Source& base,
                           const std::function<bool()>& stopped) {
    ROLL_TRY(const Adapter again, open_adapter(written, base));
    Source read = source_of(peft_tensors(again));
    if (written.native) {
        ROLL_TRY(read, open_native_tensors(written.directory, base));
    }
    ROLL_TRY(Diff found, diff(tensors, read, true, stopped));
    append(found, "", {0, scale_differences(adapter, again), {}, {}});
    if (found.same()) return {};
    const std::string name = !found.differences.empty()  ? found.differences.front().name
                             : !found.only_first.empty() ? found.only_first.front()
                                                         : found.only_second.front();
    return fail(ErrorCode::Corrupt,
                "the written " + name + " differs from the source adapter; convert again");
}

}  // namespace roll::convert
