"""Roll's counter-based random numbers (worker/train/model/random.hpp), written again from Salmon et al., 2011."""
import numpy


def philox(counter, key):
    """Returns four arrays of random words by Philox4x32-10; `counter` has four arrays, `key` two numbers."""
    c, mask = [numpy.asarray(word, dtype=numpy.uint64) for word in counter], 0xFFFFFFFF
    for _ in range(10):
        x, y = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
        c = [(y >> 32) ^ c[1] ^ numpy.uint64(key[0]), y & mask, (x >> 32) ^ c[3] ^ numpy.uint64(key[1]), x & mask]
        key = ((key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask)
    return c


def uniform(numbers, seed, name):
    """Returns the numbers in [0, 1) with these indices in a sequence; `name` is XXH3-64 of the sequence's name."""
    index, zeros = numpy.asarray(numbers, dtype=numpy.uint64), numpy.zeros(len(numbers), dtype=numpy.uint64)
    words = [word & 0xFFFFFFFF for word in (index, index >> 32, zeros + numpy.uint64(name),
                                            zeros + numpy.uint64(name >> 32))]
    high, low, _, _ = philox(words, (seed & 0xFFFFFFFF, seed >> 32))
    return ((high << 32 | low) >> 11).astype(numpy.float64) * 2.0**-53
