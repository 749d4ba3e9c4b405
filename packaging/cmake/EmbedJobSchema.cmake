# cmake -D "JOB=job.schema.json" -D "POLICY=rolld.schema.json" -D "OUT=embedded.cpp" -P EmbedJobSchema.cmake:
# writes both files as string literals. The program parses them at first use (common/spec/schema/schema.hpp).
file(READ "${JOB}" job)
file(READ "${POLICY}" policy)
file(WRITE "${OUT}" "#include \"common/spec/schema/schema.hpp\"

namespace roll::spec {

const OrderedJson& job_schema() {
    static const OrderedJson kSchema = OrderedJson::parse(R\"schema(${job})schema\");
    return kSchema;
}

const OrderedJson& policy_schema() {
    static const OrderedJson kSchema = OrderedJson::parse(R\"schema(${policy})schema\");
    return kSchema;
}

}  // namespace roll::spec
")
