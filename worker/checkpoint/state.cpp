#include "worker/checkpoint/state.hpp"

#include <cmath>

#include "common/json.hpp"

namespace roll::checkpoint {
namespace {

constexpr const char* kStateSchema = "roll.checkpoint_state/1";

OrderedJson optional_json(const std::optional<double>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

std::optional<double> optional_double(JsonReader& reader, const char* key) {
    const Json& field = reader.raw(key);
    return field.is_number() ? std::optional(field.get<double>()) : std::nullopt;
}

Result<Layout> decode_layout(const Json& json) {
    JsonReader reader(json, "state.layout");
    const Layout layout{reader.get<int>("dp"),  reader.get<int>("tp"), reader.get<int>("pp"),
                        reader.get<int>("vpp"), reader.get<int>("cp"), reader.get<int>("ep")};
    ROLL_TRY_VOID(reader.finish_lenient());
    return layout;
}

}  // namespace

bool note_validation(State& state, double loss, double min_delta) {
    // a NaN must not become the best loss, because no later loss compares as less than NaN
    if (!std::isfinite(loss)) {
        ++state.stale_validations;
        return false;
    }
    const std::optional<double> before = state.best_valid_loss;
    const bool better = !before || loss < *before - min_delta;
    state.stale_validations = better ? 0 : state.stale_validations + 1;
    if (before && !(loss < *before)) return false;
    state.best_valid_loss = loss;
    state.best_step = state.step;
    return true;
}

std::string encode(const State& s) {
    const Layout& l = s.layout;
    const OrderedJson layout = {{"dp", l.dp},   {"tp", l.tp}, {"pp", l.pp},
                                {"vpp", l.vpp}, {"cp", l.cp}, {"ep", l.ep}};
    const OrderedJson json = {{"schema", kStateSchema},
                              {"step", s.step},
                              {"samples", s.samples},
                              {"tokens", s.tokens},
                              {"seed", s.seed},
                              {"dtype", s.dtype},
                              {"layout", layout},
                              {"train_tokens", s.train_tokens},
                              {"seq_length", s.seq_length},
                              {"data", s.data},
                              {"order", s.order},
                              {"loss", s.loss},
                              {"valid_loss", optional_json(s.valid_loss)},
                              {"best_valid_loss", optional_json(s.best_valid_loss)},
                              {"best_step", s.best_step},
                              {"clipped_steps", s.clipped_steps},
                              {"stale_validations", s.stale_validations},
                              {"left_out", s.left_out}};
    return json.dump(1) + "\n";
}

Result<State> decode_state(std::string_view text) {
    ROLL_TRY(const Json json, parse_json(text));
    JsonReader reader(json, "state");
    const auto schema = reader.get<std::string>("schema");
    State s;
    s.step = reader.get<std::int64_t>("step");
    s.samples = reader.get<std::int64_t>("samples");
    s.tokens = reader.get<std::int64_t>("tokens");
    s.seed = reader.get<std::uint64_t>("seed");
    s.dtype = reader.get<std::string>("dtype");
    s.train_tokens = reader.get<std::int64_t>("train_tokens");
    s.seq_length = reader.get_or<std::int64_t>("seq_length", 0);
    s.data = reader.get_or("data", s.data);
    s.order = reader.get_or("order", s.order);
    s.loss = reader.get_or("loss", 0.0);
    s.valid_loss = optional_double(reader, "valid_loss");
    s.best_valid_loss = optional_double(reader, "best_valid_loss");
    s.best_step = reader.get<std::int64_t>("best_step");
    s.clipped_steps = reader.get_or<std::int64_t>("clipped_steps", 0);
    s.stale_validations = reader.get_or<std::int64_t>("stale_validations", 0);
    s.left_out = reader.get_or("left_out", s.left_out);
    const Json layout = reader.raw("layout");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kStateSchema)
        return fail(ErrorCode::Corrupt, "state: not a " + std::string(kStateSchema));
    ROLL_TRY(s.layout, decode_layout(layout));
    return s;
}

}  // namespace roll::checkpoint
