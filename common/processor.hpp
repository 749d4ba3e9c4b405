// The processor's vector instructions, by which the trainer chooses its kernels and its matrix
// products. One choice serves the programs that compute and those that only name it.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll {

struct Processor {
    // Ascending: each has all that the ones before it have.
    enum class Vectors { Default, Avx2, Avx512, Avx512Bf16, Amx };
    // How bfloat16 matrices are multiplied: widened to float32, in pairs (VDPBF16PS), in AMX tiles.
    enum class Bfloat16 { Widened, Pairs, Tiles };

    Vectors vectors = Vectors::Default;
    bool intel = false;
    std::string forced = {};  // "NAME=VALUE" of the variable that chose; empty: the processor did

    bool has_blocks() const { return vectors != Vectors::Default; }  // in oneDNN, of float32
    // MKL multiplies float32 matrices fastest on Intel's processors, oneDNN's blocks on others.
    bool takes_mkl() const { return intel || !has_blocks(); }
    Bfloat16 bfloat16() const;
};

// "default", "avx2", "avx512", "avx512_bf16" or "amx".
const char* name_of(Processor::Vectors vectors);

// ROLL_PROCESSOR in the environment (NAME, NAME-intel or NAME-other, for tests) chooses less than
// the processor has; otherwise ATEN_CPU_CAPABILITY, LibTorch's own variable, does.
// Error InvalidArgument: ROLL_PROCESSOR has another value, or the processor has less.
Result<Processor> find_processor();

// The same, found once. The error ends the program.
const Processor& processor();

// One line: the vectors, and how each kind of matrix product is computed.
std::string processor_text(const Processor& processor);

// Sets the variables by which LibTorch, oneDNN and MKL choose, where ROLL_PROCESSOR chose. To be
// called before the first operator.
void limit_libraries(const Processor& processor);

}  // namespace roll
