// Marks a function whose loops over arrays are to be compiled for the vector units that the machine
// turns out to have, besides those that every x86-64 has. Results are the same on all of them: a
// product is rounded before it is added.
#pragma once

// Sanitizers cannot watch the choice, which is made before they are up.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ROLL_VECTORIZED                               \
    __attribute__((optimize("O3", "fp-contract=off"), \
                   target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ROLL_VECTORIZED
#endif
