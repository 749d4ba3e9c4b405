// CURVE key pairs in files of a state directory: NAME.key holds the secret (mode 0600), NAME.pub
// the public half, each as 40 characters of Z85 and a newline.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/error.hpp"

namespace roll::io {

struct CurveKeys {
    std::string public_key;  // Z85
    std::string secret_key;  // Z85
};

CurveKeys make_curve_keys();

// Error NotFound if there is no such pair; Refused if others may read the secret; Corrupt if it is
// no key.
Result<CurveKeys> load_curve_keys(const std::filesystem::path& directory, const std::string& name);
Result<std::string> load_public_key(const std::filesystem::path& file);

// Loads the pair, made on first use. Two processes that come first at once get the same pair. With
// `authorized` (a directory) a pair that is made here may connect from then on; one whose file was
// removed there since is not put back.
Result<CurveKeys> load_or_make_curve_keys(const std::filesystem::path& directory,
                                          const std::string& name,
                                          const std::filesystem::path& authorized = {});

// Public key -> NAME of each NAME.pub in the directory. Files that hold no key are left out; a
// directory that cannot be read authorizes nobody.
std::map<std::string, std::string> read_authorized(const std::filesystem::path& directory);

}  // namespace roll::io
