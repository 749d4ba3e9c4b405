#include "cli/text/text_width.hpp"

#include <gtest/gtest.h>

#include "common/wrapped.hpp"

namespace roll::cli {
namespace {

TEST(TextWidth, WideAndCombiningCharactersCount) {
    EXPECT_EQ(columns_of("abc"), 3u);
    EXPECT_EQ(columns_of("äö"), 2u);
    EXPECT_EQ(columns_of("保存"), 4u);
    EXPECT_EQ(columns_of("e\xcc\x81"), 1u) << "a combining accent";
    EXPECT_EQ(columns_of("\u05e9\u05b8"), 1u) << "a combining vowel of Hebrew";
    EXPECT_EQ(columns_of("\u231b"), 2u) << "an hourglass";
    EXPECT_EQ(columns_of("\xff\x80x"), 3u) << "bytes that are no UTF-8";
}

TEST(TextWidth, TextIsCutBetweenCharacters) {
    EXPECT_EQ(first_columns("保存x", 3), "保");
    EXPECT_EQ(first_columns("保存x", 5), "保存x");
    EXPECT_EQ(fit_text("abcdef", 6), "abcdef");
    EXPECT_EQ(fit_text("abcdef", 5), "abcd+");
    EXPECT_EQ(fit_text("abcdef", 0), "");
    EXPECT_EQ(pad_text("保", 4), "保  ");
    EXPECT_EQ(pad_text("7", 3, true), "  7");
}

TEST(TextWidth, LongLinesAreBrokenAtSpaces) {
    EXPECT_EQ(wrapped("a    bb cc dd\n", 10, 5), "a    bb cc\n     dd\n");
    EXPECT_EQ(wrapped("a    bb cc dd ee ff", 9, 5), "a    bb\n     cc\n     dd\n     ee\n     ff");
    EXPECT_EQ(wrapped("fits here\n\nand here\n", 9, 5), "fits here\n\nand here\n");
    EXPECT_EQ(wrapped("  toolongaword b\n", 6, 5), "  toolongaword\n     b\n");
    EXPECT_EQ(wrapped("a b", 0, 5), "a\n     b");
    EXPECT_EQ(wrapped("", 9, 5), "");
}

TEST(TextWidth, TextFromJobsCannotChangeTheTerminal) {
    EXPECT_EQ(harmless("a\x1b[31mred\x1b[0m b\x1b]0;title\a!\r\n"), "ared b!");
    EXPECT_EQ(harmless("a\tb"), "a       b");
    EXPECT_EQ(harmless("\xc2\x9b"
                       "2J\x7f"),
              "2J")
        << "the one-byte form of ESC [";
    EXPECT_EQ(harmless("\xff?"), "??");
    EXPECT_EQ(harmless("\x1b"), "");
    EXPECT_EQ(harmless("\x1b[12"), "");
    EXPECT_EQ(harmless("one\ntwo\n"), "one two") << "a reason cannot add a line to a table";
}

TEST(TextWidth, PrintedTextKeepsColoursAndLinesOnly) {
    EXPECT_EQ(printable("a\x1b[31mred\x1b[0m\n\tb"), "a\x1b[31mred\x1b[0m\n\tb");
    EXPECT_EQ(printable("a\x1b[2J\x1b[1;1H\x1b]0;title\a\r\b\x7f\x1b[Kb"), "ab");
    EXPECT_EQ(printable("保\xc2\x9b"
                        "2J\xff"),
              "保2J\xff");
    EXPECT_EQ(printable("\x1b[?1049m\x1b[m\x1b"), "\x1b[m");
    EXPECT_EQ(printable("\x1b(Ba\x1b[38:5:1mb"), "a\x1b[38:5:1mb") << "as tput sgr0 writes";
    EXPECT_EQ(printable("a\x1b]0;\nb\x1b[1\nc\x1b\nd"), "a\nb\nc\nd") << "unended sequences";
    EXPECT_EQ(printable("10 %\r\x1b[K20 %\x1b[2J", Keep::Progress), "10 %\r\x1b[K20 %");
}

TEST(TextWidth, JsonKeepsItsValues) {
    const std::string text = "\"\x7f\xc2\x9b\xc2\xa0 ö\"";
    EXPECT_EQ(escaped_json(text), "\"\\u007f\\u009b\xc2\xa0 ö\"");
    EXPECT_EQ(printable(escaped_json(text)), escaped_json(text));
}

}  // namespace
}  // namespace roll::cli
