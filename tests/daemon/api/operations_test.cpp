// The table of operations: its rows agree with those of the protocol, and it lets in those who may
// call an operation.
#include "daemon/api/operations.hpp"

#include <set>

#include <gtest/gtest.h>

#include "common/protocol/job_operations.hpp"
#include "common/protocol/operations.hpp"

namespace roll::api {
namespace {

TEST(Operations, EachOperationOfTheProtocolIsServedOnce) {
    std::set<const protocol::Operation*> known, served;
    for (const auto& one : protocol::operations()) known.insert(one.operation);
    std::set<std::string> names;
    for (const ServedOperation& one : operations()) {
        served.insert(one.operation);
        EXPECT_TRUE(names.insert(one.operation->name).second) << one.operation->name;
    }
    EXPECT_EQ(served, known);
}

TEST(Operations, OnlyOperatorsChangeTheCluster) {
    const Caller ann{Role::Client, "ann"}, owner{Role::Operator, "owner"};
    std::set<std::string> refused;
    for (const ServedOperation& one : operations()) {
        EXPECT_TRUE(find_for(owner, one.operation->name)) << one.operation->name;
        const auto found = find_for(ann, one.operation->name);
        if (found) continue;
        EXPECT_EQ(found.error().code, ErrorCode::Refused);
        refused.insert(one.operation->name);
    }
    EXPECT_EQ(refused, (std::set<std::string>{"shutdown", "drain", "undrain", "alloc_add",
                                              "alloc_pause", "alloc_resume", "alloc_remove",
                                              "alloc_close", "alloc_cancel"}));
    EXPECT_EQ(find_for(owner, "levitate").error().message, "rolld knows no operation levitate");
}

TEST(Operations, TextsForOtherUsersAreOneShortLine) {
    EXPECT_TRUE(check_line("reason", ""));
    EXPECT_TRUE(check_line("reason", "größer als 5 %"));
    const auto evil = check_line("reason", "\x1b[2J");
    ASSERT_FALSE(evil);
    EXPECT_EQ(evil.error().code, ErrorCode::InvalidArgument);
    EXPECT_FALSE(check_line("reason", "one\ntwo"));
    EXPECT_FALSE(check_line("message", std::string(1, '\0')));
    EXPECT_EQ(check_line("message", std::string(1001, 'x')).error().message,
              "message has 1001 bytes; allowed: one line of at most 1000 bytes");
}

TEST(Operations, ArgumentsAreReadInOnePlaceWithOneError) {
    for (const ServedOperation& one : operations()) {
        const auto* info = protocol::find_operation(one.operation->name);
        ASSERT_NE(info, nullptr);
        Json args = Json::object();
        for (const protocol::FieldInfo& field : info->arguments()) {
            EXPECT_FALSE(field.help.empty()) << one.operation->name << " " << field.name;
            if (!field.type.empty()) args[field.name] = Json::array({Json::object()});
        }
        if (args.empty()) continue;
        const auto wrong = info->check(args);
        ASSERT_FALSE(wrong) << one.operation->name;
        EXPECT_EQ(wrong.error().code, ErrorCode::InvalidArgument);
        EXPECT_NE(wrong.error().message.find("; allowed: "), std::string::npos)
            << wrong.error().message;
    }
    EXPECT_FALSE(protocol::find_operation("jobs")->check({{"stat", "x"}})) << "unknown field";
    EXPECT_FALSE(protocol::find_operation("cancel")->check(Json::object())) << "no selector";
}

TEST(Operations, ArgumentsThatAreWrittenAreReadBack) {
    protocol::UpdateArgs update;
    update.selector = "3-9";
    update.priority = 0;
    const Json json = protocol::arguments_json(update);
    EXPECT_EQ(json, Json({{"selector", "3-9"}, {"priority", 0}}));
    const auto read = protocol::read_arguments<protocol::UpdateArgs>(json);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->priority, 0);
    EXPECT_FALSE(read->begin || read->first || read->wait_ms);
}

}  // namespace
}  // namespace roll::api
