// Whether a result is added to what a tensor holds, or takes its place.
#pragma once

namespace roll::ops {

enum class Sum { Replace, Add };

}  // namespace roll::ops
