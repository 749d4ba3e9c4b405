// The files of the dashboard in daemon/http/page, which are compiled in.
#pragma once

#include <string_view>

namespace roll::http {

// Returns the content of index.html, style.css or app.js; empty for any other name.
std::string_view page_file(std::string_view name);

}  // namespace roll::http
