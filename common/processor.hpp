// Detects the processor's vector instructions. The trainer chooses its kernels and matrix products
// by the result. Other programs only report the result.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll {

struct Processor {
    // Levels of vector instructions in ascending order; each level includes the levels before it.
    enum class Vectors { Default, Avx2, Avx512, Avx512Bf16, Amx };
    // How bfloat16 matrices are multiplied. Widened: the elements of the matrices are converted to
    // float32. Pairs: the instruction VDPBF16PS multiplies pairs of numbers and adds the products.
    // Tiles: AMX multiplies tiles of the matrices.
    enum class Bfloat16 { Widened, Pairs, Tiles };

    Vectors vectors = Vectors::Default;
    bool intel = false;
    // the environment variable "NAME=VALUE" that selected the level; empty if none
    // did
    std::string forced = {};

    // Returns whether this processor has the instructions for oneDNN's block kernels, which
    // multiply blocks of float32 matrices.
    bool has_blocks() const { return vectors != Vectors::Default; }
    // Returns whether MKL, and not oneDNN, computes float32 products. This is the case on Intel's
    // processors, because MKL is faster there. This is also the case on processors that cannot run
    // oneDNN's block kernels.
    bool takes_mkl() const { return intel || !has_blocks(); }
    Bfloat16 bfloat16() const;
};

// Returns "default", "avx2", "avx512", "avx512_bf16" or "amx".
const char* name_of(Processor::Vectors vectors);

// Detects the processor. For tests, the variable ROLL_PROCESSOR can select a lower level. Its value
// is NAME, NAME-intel or NAME-other. NAME is the name of the level. The suffix overrides the
// detected manufacturer. If ROLL_PROCESSOR is not set, LibTorch's ATEN_CPU_CAPABILITY can select a
// lower level. Fails with InvalidArgument if ROLL_PROCESSOR is malformed or exceeds what the
// processor supports.
Result<Processor> find_processor();

// Returns the result of find_processor(), which is called once per process. Ends the program if
// find_processor() fails.
const Processor& processor();

// Returns one line: the processor's instruction-set level ("avx2"), then the method used for each
// kind of matrix product.
std::string processor_text(const Processor& processor);

// If ROLL_PROCESSOR is set, sets the environment variables that limit LibTorch, oneDNN and MKL to
// the same level. Call this function before the first tensor operation.
void limit_libraries(const Processor& processor);

}  // namespace roll
