// The limit of open files of this process.
#pragma once

namespace roll::io {

// Raises the limit of open files to the maximum, because each connection needs a descriptor.
void raise_file_limit();

}  // namespace roll::io
