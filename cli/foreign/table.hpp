// The content of the tables in schemas/foreign. The tables are compiled into the program.
#pragma once

#include "common/json.hpp"

namespace roll::cli {

const OrderedJson& foreign_table();   // returns the content of trainer.json
const OrderedJson& pipeline_table();  // returns the content of pipeline.json
const OrderedJson& sbatch_table();    // returns the content of sbatch.json

}  // namespace roll::cli
