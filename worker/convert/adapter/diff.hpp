// Compares LoRA adapters: two directories, or a written adapter with its source.
#pragma once

#include <functional>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter/report.hpp"
#include "worker/convert/plan/diff.hpp"

namespace roll::convert {

// Compares each adapter of `first` with the adapter of `second` that has the same name, module by
// module. The formats on disk may differ. A difference named "NAME: MODULE scale" means that alpha
// / rank differs. `cast` is passed to diff().
Result<Diff> diff_adapters(const std::vector<OpenedAdapter>& first,
                           const std::vector<OpenedAdapter>& second, bool cast,
                           const std::function<bool()>& stopped);

// Checks a written adapter by reading it from `written`. `tensors` are the tensors that were
// written, with the names that they have in the files. Fails with Corrupt if a tensor or scale
// differs; the message names the tensor or scale.
Result<void> check_written(const formats::Adapter& adapter, const Source& tensors,
                           const AdapterPlace& written, const Source& base,
                           const std::function<bool()>& stopped);

}  // namespace roll::convert
