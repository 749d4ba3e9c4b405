# cmake -D "DIR=daemon/http/page" -D "OUT=page.cpp" -P EmbedPage.cmake: writes the dashboard's files as string literals.
set(list "")
file(GLOB files RELATIVE "${DIR}" "${DIR}/*")
foreach(file ${files})
  file(READ "${DIR}/${file}" text)
  # A string literal of more than 64 KiB is not portable, so the text is written in parts.
  string(LENGTH "${text}" length)
  set(parts "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} 16000 part)
    string(APPEND parts "R\"page(${part})page\"\n")
    math(EXPR begin "${begin} + 16000")
  endwhile()
  string(APPEND list "    if (name == \"${file}\") return std::string_view(${parts});\n")
endforeach()
file(WRITE "${OUT}" "#include \"daemon/http/page.hpp\"

namespace roll::http {

std::string_view page_file(std::string_view name) {
${list}    return {};
}

}  // namespace roll::http
")
