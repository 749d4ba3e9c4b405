#include "common/spec/train/read_samples.hpp"

#include <array>
#include <string>
#include <vector>

#include "common/spec/train/names.hpp"

namespace roll::spec {
namespace {

constexpr std::array kPackings = {"in_order", "best_fit", "wrapped"};
constexpr std::array kTruncations = {"end", "start", "prompt", "split", "drop", "error"};

// Reads a key of `data` whose value is one of `names`. If the key is missing, its value is the
// first name.
template <class E, std::size_t N>
Result<void> read_name(JsonReader& reader, const char* key, const std::array<const char*, N>& names,
                       E& value) {
    const auto text = reader.get_or<std::string>(key, names[0]);
    ROLL_TRY(value, pick<E>("data." + std::string(key), text, names));
    return {};
}

}  // namespace

const char* name_of(Packing packing) { return name_in(kPackings, packing); }

const char* name_of(Truncation truncation) { return name_in(kTruncations, truncation); }

Result<void> read_rows(JsonReader& reader, DataSpec& data) {
    ROLL_TRY_VOID(read_name(reader, "packing", kPackings, data.packing));
    return read_name(reader, "truncate", kTruncations, data.truncate);
}

void read_text_field(JsonReader& reader, DataSpec& data) {
    data.texts = reader.get_or("texts", data.texts);
    data.field = reader.get_or("field", data.field);
}

Result<void> read_valid(const Json& json, DataSpec& data) {
    if (json.is_null()) return {};
    if (json.is_number()) {
        data.valid_fraction = json.get<double>();
        return {};
    }
    data.valid_fraction = 0;
    for (const auto& [name, set] : json.items()) {
        if (set.is_number()) {
            data.valid_fraction = set.get<double>();
            data.valid_name = name;
        } else if (holds<std::string>(set)) {
            data.valid_files.push_back({name, {set.get<std::string>()}});
        } else if (holds<std::vector<std::string>>(set)) {
            data.valid_files.push_back({name, set.get<std::vector<std::string>>()});
        } else {
            return fail(ErrorCode::InvalidArgument,
                        "data.valid." + name + " is neither a fraction nor a list of files");
        }
    }
    if (data.track.empty() && !json.empty()) data.track = json.begin().key();
    return {};
}

void read_blend(JsonReader& reader, DataSpec& data) {
    using Weights = std::vector<double>;
    const Json &weights = reader.raw("weights"), &split = reader.raw("split");
    if (!weights.is_null()) data.phases.push_back({0, weights.get<Weights>()});
    for (const Json& phase : reader.raw("curriculum"))
        data.phases.push_back(
            {phase.at("step").get<std::int64_t>(), phase.at("weights").get<Weights>()});
    data.weigh_tokens = reader.get_or<std::string>("weigh", "samples") == "tokens";
    if (reader.get_or<std::string>("order", "roll") == "megatron")
        data.order = SampleOrder::Megatron;
    if (!split.is_null()) data.split = split.get<std::array<double, 3>>();
}

}  // namespace roll::spec
