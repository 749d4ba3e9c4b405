// Tells whether a result replaces a tensor's content or is added to it.
#pragma once

namespace roll::ops {

enum class Sum { Replace, Add };

}  // namespace roll::ops
