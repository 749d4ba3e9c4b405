// Translates options of pyxis, NVIDIA's plugin of Slurm for containers, into keys of a job file.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::spec {

// Returns the key `container` for a value of --container-image: [REGISTRY#]IMAGE[:TAG] or the path
// of a squashfs file. If the value is wrong, the error message says which values are allowed.
Result<Json> pyxis_image(const std::string& value);

// Returns `container.binds` for a value of --container-mounts: SRC[:DST[:FLAGS]],... If the value
// is wrong, the error message says which values are allowed.
Result<Json> pyxis_mounts(const std::string& value);

}  // namespace roll::spec
