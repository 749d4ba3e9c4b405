// Compares LoRA adapters: of two directories, and of what was written with what it was made of.
#pragma once

#include <functional>
#include <vector>

#include "common/error.hpp"
#include "worker/convert/adapter_report.hpp"
#include "worker/convert/diff.hpp"

namespace roll::convert {

// Adapters of one name are compared module by module, whichever form they have on disk; a
// difference named "NAME: MODULE scale" is one of alpha and rank. `cast`: as of diff().
Result<Diff> diff_adapters(const std::vector<OpenedAdapter>& first,
                           const std::vector<OpenedAdapter>& second, bool cast,
                           const std::function<bool()>& stopped);

// Reads the adapter at `written` again. `tensors`: those that it was written from, under the names
// of its form. Corrupt names a tensor or scale that is not what it should be.
Result<void> check_written(const formats::Adapter& adapter, const Source& tensors,
                           const AdapterPlace& written, const Source& base,
                           const std::function<bool()>& stopped);

}  // namespace roll::convert
