#include "common/spec/convert.hpp"

#include "common/json.hpp"

namespace roll::spec {

Result<ConvertSpec> convert_spec(std::string_view document) {
    ROLL_TRY(const Json json, parse_json(document));
    if (!json.is_object() || json.value("kind", Json()) != "convert") {
        return fail(ErrorCode::InvalidArgument, "the document is not that of a convert job");
    }
    JsonReader file(json, "job");
    JsonReader reader(file.raw("convert"), "convert");
    ConvertSpec spec;
    spec.source = reader.get_or<std::string>("source", "");
    reader.raw("source_job");  // the launch names that job's checkpoint
    spec.target = reader.get<std::string>("target");
    spec.to = reader.get_or<std::string>("to", "");
    spec.dtype = reader.get_or<std::string>("dtype", "keep");
    spec.overwrite = reader.get_or("overwrite", false);
    ROLL_TRY_VOID(reader.finish());
    return spec;
}

}  // namespace roll::spec
