# cmake -D "JOB=job.schema.json" -D "POLICY=rolld.schema.json" -D "OUT=embedded.cpp" -P EmbedJobSchema.cmake:
# the files as string literals.
file(READ "${JOB}" job)
file(READ "${POLICY}" policy)
file(WRITE "${OUT}" "#include \"common/spec/schema.hpp\"

namespace roll::spec {

std::string_view job_schema_text() {
    return R\"schema(${job})schema\";
}

std::string_view policy_schema_text() {
    return R\"schema(${policy})schema\";
}

}  // namespace roll::spec
")
