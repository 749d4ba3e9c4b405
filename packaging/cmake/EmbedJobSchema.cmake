# cmake -D IN=job.schema.json -D OUT=embedded.cpp -P EmbedJobSchema.cmake: the file as a string literal.
file(READ "${IN}" content)
file(WRITE "${OUT}" "#include \"common/spec/schema.hpp\"

namespace roll::spec {

std::string_view job_schema_text() {
    return R\"schema(${content})schema\";
}

}  // namespace roll::spec
")
