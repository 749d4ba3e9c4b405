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

OrderedJson best_json(const Best& best) {
    OrderedJson json = {{"metric", best.metric}, {"value", optional_json(best.value)}};
    if (best.higher) json["mode"] = *best.higher ? "max" : "min";
    return json;
}

Best decode_best(const Json& json) {
    Best best{json.value("metric", std::string())};
    if (const Json value = json.value("value", Json()); value.is_number())
        best.value = value.get<double>();
    if (const Json mode = json.value("mode", Json()); mode.is_string()) best.higher = mode == "max";
    return best;
}

// Sets the metric and the direction of `held`. Returns true if neither changes. Otherwise, clears
// the value of `held`, because the value belongs to the old metric.
bool use_metric(Best& held, const Best& metric) {
    const bool same =
        held.metric == metric.metric && held.higher.value_or(*metric.higher) == *metric.higher;
    if (!same) held.value = std::nullopt;
    held.metric = metric.metric;
    held.higher = metric.higher;
    return same;
}

OrderedJson scale_json(const LossScale& scale) {
    return {{"scale", scale.scale},
            {"good_steps", scale.good_steps},
            {"tolerated", scale.tolerated},
            {"overflows", scale.overflows},
            {"at_least", scale.at_least}};
}

Result<LossScale> decode_scale(const Json& json) {
    JsonReader reader(json, "state.loss_scale");
    const LossScale scale{reader.get<double>("scale"), reader.get<int>("good_steps"),
                          reader.get<int>("tolerated"), reader.get<std::int64_t>("overflows"),
                          reader.get<int>("at_least")};
    ROLL_TRY_VOID(reader.finish_lenient());
    return scale;
}

OrderedJson recent_json(const RecentSteps& recent) {
    return {{"losses", recent.losses},
            {"grad_norms", recent.grad_norms},
            {"batch_size", recent.batch_size},
            {"skipped", recent.skipped}};
}

Result<RecentSteps> decode_recent(const Json& json) {
    JsonReader reader(json, "state.recent");
    RecentSteps recent{reader.get<std::vector<double>>("losses"),
                       reader.get<std::vector<double>>("grad_norms"),
                       reader.get<std::int64_t>("batch_size"), reader.get<int>("skipped")};
    ROLL_TRY_VOID(reader.finish_lenient());
    return recent;
}

Result<Layout> decode_layout(const Json& json) {
    JsonReader reader(json, "state.layout");
    const Layout layout{reader.get<int>("dp"),  reader.get<int>("tp"), reader.get<int>("pp"),
                        reader.get<int>("vpp"), reader.get<int>("cp"), reader.get<int>("ep")};
    ROLL_TRY_VOID(reader.finish_lenient());
    return layout;
}

}  // namespace

void use_metrics(State& state, const Best& best, const Best& stop) {
    if (!use_metric(state.best, best)) state.best_step = 0;
    if (!use_metric(state.stop, stop)) state.stale_validations = 0;
}

bool note_best(State& state, double value, bool higher) {
    // Skip a NaN: no later value would compare as better.
    if (!std::isfinite(value)) return false;
    const std::optional<double> before = state.best.value;
    if (before && !(higher ? value > *before : value < *before)) return false;
    state.best.value = value;
    state.best_step = state.step;
    return true;
}

void note_stop(State& state, double value, bool higher, double min_delta) {
    if (!std::isfinite(value)) {
        ++state.stale_validations;
        return;
    }
    const std::optional<double> before = state.stop.value;
    const double gain = before ? (higher ? value - *before : *before - value) : 0;
    state.stale_validations = !before || gain > min_delta ? 0 : state.stale_validations + 1;
    if (!before || gain > 0) state.stop.value = value;
}

std::string encode(const State& s) {
    const Layout& l = s.layout;
    const OrderedJson layout = {{"dp", l.dp},   {"tp", l.tp}, {"pp", l.pp},
                                {"vpp", l.vpp}, {"cp", l.cp}, {"ep", l.ep}};
    OrderedJson json = {{"schema", kStateSchema},
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
                        {"best", best_json(s.best)},
                        {"best_step", s.best_step},
                        {"stop", best_json(s.stop)},
                        {"clipped_steps", s.clipped_steps},
                        {"stale_validations", s.stale_validations},
                        {"left_out", s.left_out}};
    if (s.skipped_steps > 0) json["skipped_steps"] = s.skipped_steps;
    if (s.loss_scale) json["loss_scale"] = scale_json(*s.loss_scale);
    if (s.recent) json["recent"] = recent_json(*s.recent);
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
    // Earlier versions had one value only, for the validation loss.
    s.best.value = s.stop.value = optional_double(reader, "best_valid_loss");
    if (const Json& best = reader.raw("best"); best.is_object()) s.best = decode_best(best);
    if (const Json& stop = reader.raw("stop"); stop.is_object()) s.stop = decode_best(stop);
    s.best_step = reader.get<std::int64_t>("best_step");
    s.clipped_steps = reader.get_or<std::int64_t>("clipped_steps", 0);
    s.skipped_steps = reader.get_or<std::int64_t>("skipped_steps", 0);
    s.stale_validations = reader.get_or<std::int64_t>("stale_validations", 0);
    s.left_out = reader.get_or("left_out", s.left_out);
    const Json layout = reader.raw("layout"), scale = reader.raw("loss_scale");
    const Json recent = reader.raw("recent");
    ROLL_TRY_VOID(reader.finish_lenient());
    if (schema != kStateSchema)
        return fail(ErrorCode::Corrupt, "state: the format is not " + std::string(kStateSchema));
    ROLL_TRY(s.layout, decode_layout(layout));
    if (!scale.is_null()) {
        ROLL_TRY(s.loss_scale, decode_scale(scale));
    }
    if (!recent.is_null()) {
        ROLL_TRY(s.recent, decode_recent(recent));
    }
    return s;
}

}  // namespace roll::checkpoint
