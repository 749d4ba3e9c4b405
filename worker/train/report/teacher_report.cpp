#include "worker/train/report/teacher_report.hpp"

#include <algorithm>

#include "worker/plan/cost.hpp"
#include "worker/plan/size_text.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/model/teacher.hpp"

namespace roll::train {

OrderedJson teacher_json(const spec::TrainSpec& spec, const ModelSetup& model, bool on_gpu) {
    const spec::ModelConfig config = setup_teacher(spec, model).config;
    std::int64_t elements = 0;  // number of parameters on the rank that has the most
    for (int stage = 0; stage < spec.parallel.pp; ++stage)
        elements = std::max(elements, numel(parameter_specs(
                                          config, teacher_chunk(config, spec.parallel, stage, 0))));
    // The teacher's parameters have main weights, too.
    const std::int64_t size =
        plan::element_bytes(spec.precision) + plan::copy_bytes(spec.precision, on_gpu);
    // an int32 and a float32 for each of the K tokens
    const std::int64_t of_token = spec.teacher.top_k * 8;
    return {{"directory", spec.teacher.from},
            {"parameters", plan::parameter_count(config)},
            {"weight_bytes_per_rank", elements * size},
            {"stored_bytes_per_token", of_token}};
}

std::string teacher_text(const OrderedJson& teacher) {
    return "teacher     " +
           plan::scaled(
               teacher["parameters"].get<double>(), 1000,
               {"parameters", "k parameters", "M parameters", "G parameters", "T parameters"}) +
           "; its weights take " +
           plan::bytes_text(teacher["weight_bytes_per_rank"].get<std::int64_t>()) +
           " of each rank until the first step; its predictions take " +
           plan::bytes_text(teacher["stored_bytes_per_token"].get<std::int64_t>()) +
           " on disk for each learned token\n";
}

}  // namespace roll::train
