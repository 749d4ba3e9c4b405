#include "worker/convert/plan/gather.hpp"

#include "worker/convert/plan/quantize.hpp"

namespace roll::convert {

Result<void> gather(const Source& source, const TargetTensor& target, const Window& write) {
    return target.making == Making::Copies ? gather_copies(source, target, write)
                                           : gather_blocks(source, target, write);
}

}  // namespace roll::convert
