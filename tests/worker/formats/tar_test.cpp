#include "worker/formats/tar.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace roll::formats {
namespace {

constexpr std::size_t kBlock = 512;

// Returns a header with `size` in its size field, and the content, padded to whole blocks.
std::string entry(char type, const std::string& name, const std::string& content,
                  std::size_t size) {
    std::string block(kBlock, '\0');
    block.replace(0, name.size(), name);
    block.replace(124, 11, fmt::format("{:011o}", size));
    block[156] = type;
    block.replace(257, 5, "ustar");
    std::string padded = content;
    padded.resize((content.size() + kBlock - 1) / kBlock * kBlock);
    return block + padded;
}

std::string entry(char type, const std::string& name, const std::string& content = "") {
    return entry(type, name, content, content.size());
}

std::string record(const std::string& key, const std::string& value) {
    const std::string rest = " " + key + "=" + value + "\n";
    std::size_t length = rest.size() + 1;
    while (std::to_string(length).size() + rest.size() != length) ++length;
    return std::to_string(length) + rest;
}

// Returns the members as "NAME:SIZE", or the error.
std::string members_of(const std::string& entries) {
    const std::string archive = entries + std::string(2 * kBlock, '\0');
    const auto members = parse_tar(std::as_bytes(std::span(archive)));
    if (!members) return members.error().message;
    std::string text;
    for (const TarMember& member : *members)
        text += fmt::format("{}{}:{}", text.empty() ? "" : " ", member.name, member.size);
    return text;
}

TEST(Tar, ThePaxSizeStandsInThePlaceOfTheHeaders) {
    const std::string size = entry('x', "pax", record("size", "3"));
    EXPECT_EQ(members_of(size + entry('0', "big", "abc", 0) + entry('0', "next", "de")),
              "big:3 next:2");
}

TEST(Tar, PaxRecordsAreReadByTheirLengths) {
    const std::string pax = record("comment", "30 path=another\n9 path=x\n") +
                            record("path", "with = and\nnew line") + record("mtime", "1.5");
    EXPECT_EQ(members_of(entry('x', "pax", pax) + entry('0', "short", "a")),
              "with = and\nnew line:1");
    for (const char* broken : {"path=a\n", "99 path=a\n", "3 path=a\n", "0 path=a\n", "x"})
        EXPECT_EQ(members_of(entry('x', "pax", broken) + entry('0', "short", "a")),
                  "tar: a broken pax header");
    EXPECT_EQ(members_of(entry('x', "pax", record("size", "-1")) + entry('0', "short")),
              "tar: a pax header has an invalid size; copy the file again");
}

TEST(Tar, ALongNameIsOfTheNextEntryAloneWhateverItIs) {
    const std::string directory(120, 'd');
    const std::string gnu = entry('L', "././@LongLink", directory),
                      pax = entry('x', "pax", record("path", directory));
    for (const std::string& name : {gnu, pax})
        EXPECT_EQ(members_of(name + entry('5', "ddd/") + entry('0', "short", "a")), "short:1");
}

}  // namespace
}  // namespace roll::formats
