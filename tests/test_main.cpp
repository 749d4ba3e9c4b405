// The main function of the test programs. A program holds the tests of a folder, because a program
// for each file would compile the same headers many times.
#include <filesystem>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

namespace {

// Returns the gtest filter of the tests in the file `name`_test.cpp; empty if there are none.
std::string tests_of(const std::string& name) {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    std::string filter;
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
        const testing::TestSuite& suite = *all.GetTestSuite(s);
        for (int t = 0; t < suite.total_test_count(); ++t) {
            const testing::TestInfo& test = *suite.GetTestInfo(t);
            if (std::filesystem::path(test.file()).filename() == name + "_test.cpp")
                filter += std::string(suite.name()) + '.' + test.name() + ':';
        }
    }
    return filter;
}

}  // namespace

// Runs all tests, or only the tests of the files that the arguments name without "_test.cpp".
int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    std::string filter;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name.starts_with('-')) continue;  // --help, which RUN_ALL_TESTS answers
        const std::string tests = tests_of(name);
        if (tests.empty()) {
            std::cerr << "no tests in " << name << "_test.cpp\n";
            return 2;
        }
        filter += tests;
    }
    if (!filter.empty()) testing::GTEST_FLAG(filter) = filter;
    return RUN_ALL_TESTS();
}
