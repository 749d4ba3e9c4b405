#include "daemon/http/patient.hpp"

#include <future>

#include <gtest/gtest.h>

namespace roll::http {
namespace {

using namespace std::chrono_literals;

TEST(Patient, ReturnsWhatTheFunctionReturns) {
    const Patient patient(
        [](const std::string& op, const Json& args) -> Result<Json> {
            if (op == "throws") return Json(args.at("missing"));
            return Json(op + args.at("output").get<std::string>());
        },
        60s);
    EXPECT_EQ(patient("log", {{"output", "/a"}}).value(), "log/a");
    EXPECT_NE(patient("throws", Json::object()).error().message.find("internal error"),
              std::string::npos);
}

TEST(Patient, AVolumeThatHangsBlocksNobodyForLong) {
    std::promise<void> released;
    const auto over = released.get_future().share();
    const Patient patient(
        [over](const std::string&, const Json&) -> Result<Json> {
            over.wait();
            return Json();
        },
        1ms);
    for (std::size_t i = 0; i < Patient::kHangingMax; ++i)
        EXPECT_EQ(patient("log", {{"output", "/a"}}).error().message,
                  "/a was not read, because its volume does not respond");
    EXPECT_EQ(patient("log", {{"output", "/b"}}).error().message,
              "/b was not read, because roll-web waits for too many volumes that do not respond");
    released.set_value();
}

}  // namespace
}  // namespace roll::http
