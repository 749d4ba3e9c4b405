# cmake -D "JOB=job.schema.json" -D "POLICY=rolld.schema.json" -D "OUT=embedded.cpp" -P EmbedJobSchema.cmake:
# the files as tables that the compiler makes (common/spec/embedded_json.hpp), the job's without what is for
# people alone (descriptions and white space).
file(READ "${JOB}" job)
file(READ "${POLICY}" policy)
string(REGEX REPLACE "\"description\": \"([^\"\\]|\\\\.)*\",?[ \n]*" "" job "${job}")
string(REGEX REPLACE ",([ \n]*[]}])" "\\1" job "${job}")
string(REGEX REPLACE "\n *" "" job "${job}")
file(WRITE "${OUT}" "#include \"common/spec/schema.hpp\"

namespace roll::spec {

EmbeddedJson job_schema() {
    static constexpr std::string_view kText = R\"schema(${job})schema\";
    static constexpr auto kTable = make_json_table<count_json_values(kText)>(kText);
    return {kText, kTable};
}

EmbeddedJson policy_schema() {
    static constexpr std::string_view kText = R\"schema(${policy})schema\";
    static constexpr auto kTable = make_json_table<count_json_values(kText)>(kText);
    return {kText, kTable};
}

}  // namespace roll::spec
")
