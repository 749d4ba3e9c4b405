// The files of the dashboard. The files in daemon/http/page are compiled into roll-web.
#pragma once

#include <string_view>

namespace roll::http {

// Returns the content of the file with this name in daemon/http/page; empty if there is none.
std::string_view page_file(std::string_view name);

}  // namespace roll::http
