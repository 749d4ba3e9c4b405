#include "common/spec/job/staged_files.hpp"

#include <gtest/gtest.h>

#include "tests/common/spec/job_files.hpp"

namespace roll::spec {
namespace {

class StagedFiles : public JobFiles {};
class JobRules : public JobFiles {};

TEST_F(StagedFiles, HaveNamesBelowTheirDirectoryAndPieces) {
    const std::string piece(64, 'a');
    const auto file = [&](const char* name, int bytes = 3) {
        return Json{{"name", name}, {"bytes", bytes}, {"pieces", {piece}}};
    };
    Json job = {{"name", "x"}, {"kind", "command"}, {"command", {"true"}}};
    job["files"] = {file("a"), file("b/c d")};
    job["workdir"] = "{files}/b";
    EXPECT_EQ(problems(job), "");
    EXPECT_EQ(parse(job).spec.needs, std::vector<std::string>{"files"});
    for (const char* name : {"", "/a", "../a", "a/../b", "./a", "a/", "a//b", ".", "..", "a\nb"}) {
        job["files"] = {file(name)};
        EXPECT_NE(problems(job).find("files[0].name "), std::string::npos) << name;
    }
    job["files"] = {file("a", 0)};
    EXPECT_NE(problems(job).find("files[0].bytes is 0, which cannot be the size of 1 pieces"),
              std::string::npos);
    job["files"] = {file("a", 300'000)};
    EXPECT_NE(problems(job).find("files[0].bytes is 300000, which cannot be the size of 1 pieces"),
              std::string::npos);
    job["files"] = {"a.txt"};
    EXPECT_NE(problems(job).find("files[0] is the path a.txt"), std::string::npos);
    job["files"] = {file("a")};
    job["stdout"] = "log";
    EXPECT_NE(problems(job).find("stdout is log, a path in a `workdir`"), std::string::npos);
    job.erase("files");
    EXPECT_NE(
        problems(job).find("workdir is {files}/b, a directory that only jobs with `files` have"),
        std::string::npos);
    Json train = train_file();
    train["files"] = {file("a")};
    EXPECT_NE(problems(train), "");
}

TEST_F(JobRules, VariablesOfACommandHaveNamesThatRollDoesNotNeed) {
    Json job = {{"name", "c"}, {"kind", "command"}, {"command", {"true"}}};
    job["env"] = {{"A=B", "x"}, {"ROLL_JOB", "7"}, {"ROLL_PROCESSOR", "avx2"}};
    EXPECT_EQ(problems(job),
              "env.A=B is not a variable name; allowed: a name without `=`\n"
              "env.ROLL_JOB cannot be set, because Roll sets it and finds the processes of the job "
              "by it; remove it\n");
}

TEST_F(JobRules, AConversionHasOneSource) {
    Json job = {{"name", "c"}, {"kind", "convert"}, {"convert", {{"target", "out"}}}};
    EXPECT_EQ(problems(job),
              "convert.source_job is missing; allowed: the number of a job, or set convert.source "
              "to a directory\n");
    job["convert"].update({{"source", base}, {"source_job", 4}});
    EXPECT_EQ(problems(job),
              "convert.source_job is 4, but convert.source also names a source; remove one of "
              "these two keys\n");
}

}  // namespace
}  // namespace roll::spec
