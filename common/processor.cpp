#include "common/processor.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <cpuid.h>

namespace roll {
namespace {

using Vectors = Processor::Vectors;

struct Names {
    Vectors vectors;
    const char *ours, *aten, *onednn, *mkl;
};
constexpr std::array kNames{
    Names{Vectors::Default, "default", "default", "SSE41", "SSE4_2"},
    Names{Vectors::Avx2, "avx2", "avx2", "AVX2", "AVX2"},
    Names{Vectors::Avx512, "avx512", "avx512", "AVX512_CORE", "AVX512"},
    Names{Vectors::Avx512Bf16, "avx512_bf16", "avx512", "AVX512_CORE_BF16", "AVX512"},
    Names{Vectors::Amx, "amx", "avx512", "AVX512_CORE_AMX", "AVX512"},
};

const Names& names_of(Vectors vectors) { return kNames[static_cast<std::size_t>(vectors)]; }

bool has_tiles() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    constexpr unsigned kAmxBf16 = 1U << 22;  // clang 16 has no macro for this bit
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxBf16) != 0;
}

bool has_f16c() {
    constexpr unsigned kF16c = 1U << 29;  // __builtin_cpu_supports of clang 16 lacks "f16c"
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kF16c) != 0;
}

Vectors vectors_here() {
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!avx2) return Vectors::Default;
    if (!avx512) return Vectors::Avx2;
    if (!__builtin_cpu_supports("avx512bf16")) return Vectors::Avx512;
    return has_tiles() ? Vectors::Amx : Vectors::Avx512Bf16;
}

std::string variable(const char* name) {
    const char* const value = std::getenv(name);  // NOLINT: read before any thread
    return value == nullptr ? "" : value;
}

// Returns the processor that `value`, the value of ROLL_PROCESSOR, selects. `here` is the processor
// of this machine. If `here` has Avx512Bf16 but no AMX, "amx" is also allowed, because oneDNN can
// emulate AMX's products of tiles.
Result<Processor> forced_to(const std::string& value, const Processor& here) {
    const std::size_t dash = value.find('-');
    const std::string name = value.substr(0, dash);
    const std::string maker = dash == std::string::npos ? "" : value.substr(dash + 1);
    Processor chosen{here.vectors, maker.empty() ? here.intel : maker == "intel",
                     "ROLL_PROCESSOR=" + value};
    std::string known;
    bool found = false;
    for (const Names& names : kNames) {
        known += std::string(known.empty() ? "" : ", ") + names.ours;
        if (names.ours != name) continue;
        chosen.vectors = names.vectors;
        found = true;
    }
    if (!found || (dash != std::string::npos && maker != "intel" && maker != "other"))
        return fail(ErrorCode::InvalidArgument, "ROLL_PROCESSOR is \"" + value +
                                                    "\"; allowed are " + known +
                                                    ", each alone or followed by -intel or -other");
    const Vectors most = here.vectors == Vectors::Avx512Bf16 ? Vectors::Amx : here.vectors;
    if (chosen.vectors > most)
        return fail(ErrorCode::InvalidArgument, "ROLL_PROCESSOR is \"" + value +
                                                    "\", but this processor supports at most " +
                                                    name_of(here.vectors));
    return chosen;
}

}  // namespace

Processor::Bfloat16 Processor::bfloat16() const {
    if (vectors == Vectors::Amx) return Bfloat16::Tiles;
    return vectors == Vectors::Avx512Bf16 ? Bfloat16::Pairs : Bfloat16::Widened;
}

const char* name_of(Processor::Vectors vectors) { return names_of(vectors).ours; }

Result<Processor> find_processor() {
    Processor here{vectors_here(), __builtin_cpu_is("intel") != 0};
    const std::string ours = variable("ROLL_PROCESSOR"), aten = variable("ATEN_CPU_CAPABILITY");
    if (!ours.empty()) return forced_to(ours, here);
    for (const Vectors less : {Vectors::Default, Vectors::Avx2}) {
        if (here.vectors <= less || aten != names_of(less).aten) continue;
        here.vectors = less;
        here.forced = "ATEN_CPU_CAPABILITY=" + aten;
    }
    return here;
}

const Processor& processor() {
    static const Processor found = [] {
        Result<Processor> result = find_processor();
        if (result) return *std::move(result);
        std::fprintf(stderr, "%s: %s\n", program_invocation_short_name,
                     result.error().message.c_str());
        std::exit(exit_code(result.error().code));
    }();
    return found;
}

std::string processor_text(const Processor& processor) {
    std::string text = name_of(processor.vectors);
    text += processor.takes_mkl() ? "; float32 matrix products: by MKL"
                                  : "; float32 matrix products: by oneDNN";
    switch (processor.bfloat16()) {
        case Processor::Bfloat16::Widened:
            text += ", bfloat16 matrix products: in float32 by ";
            text += processor.has_blocks() ? "oneDNN" : "MKL";
            break;
        case Processor::Bfloat16::Pairs:
            text += ", bfloat16 matrix products: by the instruction VDPBF16PS";
            break;
        case Processor::Bfloat16::Tiles:
            text += ", bfloat16 matrix products: by oneDNN with AMX tiles";
            break;
    }
    return processor.forced.empty() ? text : text + "; forced by " + processor.forced;
}

void limit_libraries(const Processor& processor) {
    if (!processor.forced.starts_with("ROLL_PROCESSOR=")) return;
    const Names& names = names_of(processor.vectors);
    ::setenv("ATEN_CPU_CAPABILITY", names.aten, 1);
    ::setenv("ONEDNN_MAX_CPU_ISA", names.onednn, 1);
    ::setenv("MKL_ENABLE_INSTRUCTIONS", names.mkl, 1);
}

}  // namespace roll
