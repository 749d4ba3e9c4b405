// Checks whether jobs may write to their output directories, as far as this machine can determine.
#pragma once

#include <vector>

#include <sys/types.h>

#include "common/error.hpp"
#include "common/spec/job/job.hpp"

namespace roll::cli {

// Fails with Refused at the first job whose output directory the user `uid` cannot create or write
// to. The jobs run as this user.
//
// If a directory, its parent and its grandparent are all missing on this machine, the directory
// counts as writable, because it may be on a file system that only the nodes mount.
Result<void> check_outputs(const std::vector<spec::JobSpec>& specs, uid_t uid);

}  // namespace roll::cli
