#include "common/spec/evaluation.hpp"

#include <string>

namespace roll::spec {
namespace {

// Reads the keys `metric` and `mode`. A missing mode follows from the metric's name.
MetricSpec read_metric(JsonReader& reader) {
    MetricSpec metric;
    metric.name = reader.get_or("metric", metric.name);
    const auto is_of = [&](const char* part) {
        return metric.name.find(part) != std::string::npos;
    };
    const bool falls = is_of("loss") || is_of("perplexity") || is_of("bits_per_byte");
    metric.higher = reader.get_or<std::string>("mode", falls ? "min" : "max") == "max";
    return metric;
}

}  // namespace

Result<MetricSpec> read_best(const Json& json) {
    JsonReader reader(json, "train.best");
    const MetricSpec best = read_metric(reader);
    ROLL_TRY_VOID(reader.finish_lenient());
    return best;
}

Result<EmaSpec> read_ema(const Json& json) {
    JsonReader reader(json, "train.ema");
    EmaSpec ema;
    ema.decay = reader.get_or("decay", ema.decay);
    ema.every = reader.get_or("every", ema.every);
    ROLL_TRY_VOID(reader.finish_lenient());
    return ema;
}

Result<EarlyStopSpec> read_early_stop(const Json& json) {
    JsonReader reader(json, "train.early_stop");
    EarlyStopSpec stop;
    stop.metric = read_metric(reader);
    stop.patience = reader.get_or("patience", stop.patience);
    stop.min_delta = reader.get_or("min_delta", stop.min_delta);
    ROLL_TRY_VOID(reader.finish_lenient());
    return stop;
}

Result<EvaluationSpec> read_evaluation(const Json& json) {
    JsonReader reader(json, "train.evaluation");
    EvaluationSpec evaluation;
    evaluation.tasks = reader.get_or("tasks", evaluation.tasks);
    evaluation.every = reader.get_or("every", evaluation.every);
    evaluation.averaged = reader.get_or<std::string>("weights", "last") == "ema";
    ROLL_TRY_VOID(reader.finish_lenient());
    return evaluation;
}

}  // namespace roll::spec
