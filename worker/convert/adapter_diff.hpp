// Compares LoRA adapters: two directories, or a written adapter with its source.
#pragma once

#include <functional>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter_report.hpp"
#include "worker/convert/diff.hpp"

namespace roll::convert {

// Compares adapters of the same name module by module, whatever their form on disk. A difference
// named "NAME: MODULE scale" means a different alpha / rank. `cast` is passed to diff().
Result<Diff> diff_adapters(const std::vector<OpenedAdapter>& first,
                           const std::vector<OpenedAdapter>& second, bool cast,
                           const std::function<bool()>& stopped);

// Reads the adapter at `written` again. `tensors` are the tensors it was written from, under the
// names of its form. Fails with Corrupt and the name of a tensor or scale that differs.
Result<void> check_written(const formats::Adapter& adapter, const Source& tensors,
                           const AdapterPlace& written, const Source& base,
                           const std::function<bool()>& stopped);

}  // namespace roll::convert
