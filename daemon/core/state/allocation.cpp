#include "daemon/core/state/allocation.hpp"

namespace roll::core {

std::string order_name(AllocationId id, const Allocation& allocation) {
    return std::to_string(allocation.incarnation) + "." + std::to_string(id.value);
}

}  // namespace roll::core
