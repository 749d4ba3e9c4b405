// config_fields: reads HuggingFace configs from stdin, one per line, and prints a line for each.
// The line is {"native": fields, "model": the trainer's config or the reason why there is none}, or
// {"error": TEXT}. Used by defaults_oracle.py.
#include <iostream>
#include <string>

#include "worker/families/families.hpp"
#include "worker/families/model.hpp"

namespace roll::families {
namespace {

Json json_of(const spec::RopeScaling& s) {
    return {{"kind", static_cast<int>(s.kind)},
            {"factor", s.factor},
            {"low_factor", s.low_factor},
            {"high_factor", s.high_factor},
            {"original_positions", s.original_positions},
            {"attention_factor", s.attention_factor},
            {"whole", s.whole},
            {"short_factors", s.short_factors},
            {"long_factors", s.long_factors}};
}

Json json_of(const spec::ModelConfig& m) {
    return {{"hidden", m.hidden},
            {"layers", m.layers},
            {"heads", m.heads},
            {"kv_heads", m.kv_heads},
            {"head_dim", m.head_dim},
            {"intermediate", m.intermediate},
            {"vocab", m.vocab},
            {"positions_max", m.positions_max},
            {"tied", m.tied},
            {"rope_theta", m.rope_theta},
            {"norm_eps", m.norm_eps},
            {"init_std", m.init_std},
            {"rope_scaling", json_of(m.rope_scaling)},
            {"qkv_bias", m.qkv_bias},
            {"out_bias", m.out_bias},
            {"qk_norm", m.qk_norm},
            {"attention_scale", m.attention_scale},
            {"attention_soft_cap", m.attention_soft_cap},
            {"logit_soft_cap", m.logit_soft_cap},
            {"window", m.window},
            {"sliding_layers", m.sliding_layers}};
}

Result<Json> fields_of(const Families& families, const std::string& line) {
    ROLL_TRY(const Json config, parse_json(line));
    ROLL_TRY(const Family* family, families.find(config.value("model_type", "")));
    ROLL_TRY(const Json native, native_config(*family, config));
    Json fields = {{"native", native}};
    if (family->rope_types.empty()) return fields;  // the trainer does not support this family
    const auto model = model_config(*family, native);
    fields["model"] = model ? json_of(*model) : Json(model.error().message);
    return fields;
}

int run() {
    const auto families = Families::load();
    if (!families) {
        std::cerr << families.error().message << "\n";
        return 1;
    }
    for (std::string line; std::getline(std::cin, line);) {
        const auto fields = fields_of(*families, line);
        std::cout << (fields ? *fields : Json{{"error", fields.error().message}}).dump() << "\n";
    }
    return 0;
}

}  // namespace
}  // namespace roll::families

int main() { return roll::families::run(); }
