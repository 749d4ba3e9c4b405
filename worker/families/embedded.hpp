// The files of schemas/families as strings in the program. The build generates embedded.cpp from
// these files.
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
