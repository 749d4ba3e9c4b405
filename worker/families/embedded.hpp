// The files of schemas/families as they were at build time. embedded.cpp is made by the build.
#pragma once

#include <span>
#include <string_view>

namespace roll::families {

struct EmbeddedFile {
    const char* name;
    std::string_view content;
};

std::span<const EmbeddedFile> embedded_families();

}  // namespace roll::families
