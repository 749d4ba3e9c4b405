#include "worker/agent/process/lines.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/io/process.hpp"

namespace roll::agent {
namespace {

class Lines : public testing::Test {
  protected:
    std::vector<std::string> feed(const std::string& text) {
        EXPECT_EQ(::write(pipe_.write.get(), text.data(), text.size()),
                  static_cast<ssize_t>(text.size()));
        EXPECT_TRUE(reader_.fill(pipe_.read.get()));
        std::vector<std::string> lines;
        while (auto line = reader_.next()) lines.push_back(*line);
        return lines;
    }
    using Result = std::vector<std::string>;
    io::Pipe pipe_ = io::make_pipe().value();
    LineReader reader_{8};
};

TEST_F(Lines, ComeWholeHoweverTheyAreCut) {
    EXPECT_EQ(feed("ab"), Result{});
    EXPECT_EQ(feed("c\nde\nf"), (Result{"abc", "de"}));
    EXPECT_EQ(feed("\n\n"), (Result{"f", ""}));
}

TEST_F(Lines, OneThatIsTooLongIsDroppedToItsEnd) {
    EXPECT_EQ(feed("123456789\nok\n"), Result{"ok"});
    EXPECT_EQ(feed("1234567890"), Result{});
    EXPECT_EQ(feed("1234567890"), Result{});
    EXPECT_EQ(feed("12\n12345678\n"), Result{"12345678"});
}

TEST_F(Lines, EndWithThePipe) {
    pipe_.write.reset();
    EXPECT_FALSE(reader_.fill(pipe_.read.get()));
}

}  // namespace
}  // namespace roll::agent
