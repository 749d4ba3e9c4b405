// Compares the LoRA adapters of two directories, or a written adapter with its source.
#pragma once

#include <functional>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter/report.hpp"
#include "worker/convert/plan/diff.hpp"

namespace roll::convert {

// Compares each adapter of `first` with the adapter of the same name in `second`, module by module.
// Their formats on disk may differ. A difference named "NAME: MODULE scale" means that the values
// of alpha / rank differ. `cast` is passed to diff().
Result<Diff> diff_adapters(const std::vector<OpenedAdapter>& first,
                           const std::vector<OpenedAdapter>& second, bool cast,
                           const std::function<bool()>& stopped);

// Checks a written adapter: reads it from `written` and compares it with `adapter`. `tensors` are
// the written tensors, with their names in the files. Fails with Corrupt if a tensor or scale
// differs; the message names the tensor or scale.
Result<void> check_written(const formats::Adapter& adapter, const Source& tensors,
                           const AdapterPlace& written, const Source& base,
                           const std::function<bool()>& stopped);

}  // namespace roll::convert
