// Recognizes the names of environment variables that probably hold secrets.
#pragma once

#include <string_view>

namespace roll {

// Returns true if the name contains TOKEN, KEY, SECRET, PASSWORD or PASSWD in upper or lower
// case, such as HF_TOKEN or AWS_SECRET_KEY. TOKENIZERS_PARALLELISM is not the name of a secret.
bool looks_secret(std::string_view name);

}  // namespace roll
