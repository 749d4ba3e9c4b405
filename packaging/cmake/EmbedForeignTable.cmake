# cmake -D "TABLE=trainer.json" -D FUNCTION=foreign_table -D "OUT=embedded.cpp" -P EmbedForeignTable.cmake: writes the
# file as a string literal, and a function of cli/foreign/table.hpp that returns its content.
file(READ "${TABLE}" table)
# A string literal of more than 64 KiB is not portable, so the table is written in parts.
string(LENGTH "${table}" length)
set(text "")
set(begin 0)
while(begin LESS length)
  string(SUBSTRING "${table}" ${begin} 16000 part)
  string(APPEND text "R\"table(${part})table\"\n")
  math(EXPR begin "${begin} + 16000")
endwhile()
file(WRITE "${OUT}" "#include \"cli/foreign/table.hpp\"

namespace roll::cli {

const OrderedJson& ${FUNCTION}() {
    static const OrderedJson kTable = OrderedJson::parse(${text});
    return kTable;
}

}  // namespace roll::cli
")
