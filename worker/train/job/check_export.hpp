// Compares the export of a checkpoint with the checkpoint: both must compute the same logits.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::train {

// File in an export that export.every made. The file names the exported checkpoint, and says how
// far the logits differ.
inline constexpr const char* kExportFile = "roll_export.json";

struct ExportCheck {
    std::string directory;              // directory of the export
    std::string checkpoint;             // directory of the exported checkpoint
    std::string base;                   // base model of a LoRA job; otherwise empty
    std::vector<std::string> adapters;  // adapters that the job merged into the base model
    std::string dtype = "fp32";         // number type of the exported weights
    bool is_adapter = false;            // true: the export is an adapter of `base`
    // true: the export has the average of the weights (train.ema)
    bool averaged = false;
};

// Loads both models one after the other, computes the logits of the same tokens, and writes
// kExportFile to the export. Rounds the checkpoint's weights to the type of the export first, so
// that only errors of the export make a difference. Returns the content of the file. Throws
// RankFailure if the logits differ.
OrderedJson check_export(const ExportCheck& check);

}  // namespace roll::train
