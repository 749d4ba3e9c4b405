# cmake -D "JOB=job.schema.json" -D "POLICY=rolld.schema.json" -D "OUT=embedded.cpp" -P EmbedJobSchema.cmake:
# the files as string literals, the job's without what is for people alone (descriptions and white space),
# because every `rollctl submit` parses it.
file(READ "${JOB}" job)
file(READ "${POLICY}" policy)
string(REGEX REPLACE "\"description\": \"([^\"\\]|\\\\.)*\",?[ \n]*" "" job "${job}")
string(REGEX REPLACE ",([ \n]*[]}])" "\\1" job "${job}")
string(REGEX REPLACE "\n *" "" job "${job}")
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
