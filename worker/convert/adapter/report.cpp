#include "worker/convert/adapter/report.hpp"

namespace roll::convert {
namespace {

const char* format_of(const AdapterPlace& place) { return place.native ? "native" : "peft"; }

}  // namespace

Result<std::vector<OpenedAdapter>> open_adapters(const std::filesystem::path& directory,
                                                 const std::filesystem::path& config,
                                                 const families::Families& families) {
    std::vector<OpenedAdapter> opened;
    for (const AdapterPlace& place : find_adapters(directory)) {
        ROLL_TRY_VOID(check_matrices(place));
        auto base = open_base({}, config, directory, families);
        if (!base && place.native) return tl::unexpected(base.error());
        ROLL_TRY(formats::Adapter adapter, open_adapter(place, base ? *base : Source()));
        // If the base is known, open_adapter() has split the stacked modules, and `stacked` is
        // empty.
        adapter.modules.insert(adapter.modules.end(), adapter.stacked.begin(),
                               adapter.stacked.end());
        adapter.stacked.clear();
        opened.push_back({place, std::move(adapter)});
    }
    return opened;
}

Json to_json(const std::filesystem::path& directory, const std::vector<OpenedAdapter>& adapters) {
    Json json{{"schema", "roll.inspect/1"},
              {"directory", directory.string()},
              {"format", name_of(Format::Peft)},
              {"adapters", Json::array()}};
    for (const auto& [place, adapter] : adapters) {
        Json one{{"name", place.name}, {"kind", format_of(place)}, {"modules", Json::array()}};
        for (const formats::LoraModule& module : adapter.modules)
            one["modules"].push_back({{"name", module.module},
                                      {"rank", module.a.info.shape[0]},
                                      {"scale", module.scale},
                                      {"dtype", name_of(module.a.info.dtype)},
                                      {"a", module.a.info.shape},
                                      {"b", module.b.info.shape},
                                      {"dora", module.magnitude.has_value()}});
        one["whole"] = Json::array();
        for (const tensor::StridedView& view : adapter.whole)
            one["whole"].push_back({{"name", view.info.name},
                                    {"dtype", name_of(view.info.dtype)},
                                    {"shape", view.info.shape}});
        json["adapters"].push_back(std::move(one));
    }
    return json;
}

std::string to_text(const std::vector<OpenedAdapter>& adapters) {
    std::string text;
    for (const auto& [place, adapter] : adapters) {
        text +=
            fmt::format("{} ({}): modules with LoRA: {}; tensors saved in full: {}\n", place.name,
                        format_of(place), adapter.modules.size(), adapter.whole.size());
        for (const formats::LoraModule& module : adapter.modules)
            text += fmt::format(
                "{} {} rank {} scale {} A {} B {}{}\n", module.module, name_of(module.a.info.dtype),
                module.a.info.shape[0], module.scale, tensor::to_string(module.a.info.shape),
                tensor::to_string(module.b.info.shape), module.magnitude ? " DoRA" : "");
        for (const tensor::StridedView& view : adapter.whole)
            text += fmt::format("{} {} {} whole\n", view.info.name, name_of(view.info.dtype),
                                tensor::to_string(view.info.shape));
    }
    return text;
}

}  // namespace roll::convert
