// Fuzzes configs and indexes. Any text is refused, or gives a model whose tensors can be listed and
// split over its ranks.
#include "common/check.hpp"
#include "tests/fuzz/input.hpp"
#include "worker/convert/checkpoint/mca_layout.hpp"
#include "worker/convert/checkpoint/pieces.hpp"
#include "worker/families/families.hpp"
#include "worker/families/model.hpp"
#include "worker/formats/hf.hpp"
#include "worker/formats/mca.hpp"

namespace {

using roll::Json;

const roll::families::Families& families() {
    static const roll::families::Families all = roll::families::Families::load().value();
    return all;
}

// Returns false if a count of layers, experts or similar parts, at any depth of the config, is so
// large that listing the tensors would take seconds.
bool is_small(const Json& config) {
    for (const auto& [key, value] : config.items()) {
        if (value.is_object() && !is_small(value)) return false;
        if (!value.is_number() || value <= 64) continue;
        for (const char* counted : {"layers", "depth", "experts", "blocks"})
            if (key.find(counted) != std::string::npos) return false;
    }
    return true;
}

void lay_out(const Json& hf_config, roll::formats::McaConfig config) {
    const auto type = hf_config.find("model_type");
    if (type == hf_config.end() || !type->is_string()) return;
    const auto family = families().find(type->get<std::string>());
    if (!family || !is_small(hf_config)) return;
    const auto native = roll::families::native_config(**family, hf_config);
    if (!native || !is_small(*native)) return;
    const auto tensors = roll::families::native_tensors(**family, *native, hf_config);
    if (!tensors || tensors->size() > 4096) return;
    const roll::formats::McaLayout& layout = config.layout;
    if (layout.tp * layout.pp * layout.ep > 64) return;
    config.native = *native;
    const auto laid = mca_layout(*tensors, roll::convert::model_of(*tensors), config);
    if (!laid) ROLL_CHECK(!laid.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = roll::fuzz::text_of(data, size);
    if (const auto index = roll::formats::parse_index(text))
        for (const auto& [tensor, file] : *index) ROLL_CHECK(file.find('/') == std::string::npos);
    if (auto native = roll::formats::parse_mca_config(text)) {
        const Json hf_config = native->hf_config;
        lay_out(hf_config, *std::move(native));
    }
    const auto json = roll::parse_json(text);
    if (json && json->is_object()) {
        roll::formats::McaConfig config;
        config.layout.tp = 2;
        config.layout.pp = 2;
        lay_out(*json, config);
    }
    return 0;
}
