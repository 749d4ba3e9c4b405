// ROLL_VECTORIZED compiles a function's loops once for each of several vector units. The program
// chooses one of these versions at its start. The results are equal on all vector units, because
// products are rounded before they are added (no FMA).
#pragma once

// With sanitizers, the macro is empty. The ifunc resolver, which chooses a version of the function,
// would run before the sanitizers are initialized.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ROLL_VECTORIZED                               \
    __attribute__((optimize("O3", "fp-contract=off"), \
                   target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ROLL_VECTORIZED
#endif
