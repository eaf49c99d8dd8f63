// Arithmetic on two halves or four bytes of a 32-bit word, each on its own: nothing carries from one to the next.
#pragma once

namespace cuemu {
// `Lane` is the signed or unsigned integer that each part is taken as; results wrap to the part.
template <class Lane, class Op>
inline __attribute__((always_inline)) unsigned each(unsigned a, unsigned b, Op op) {
    constexpr unsigned bits = 8 * sizeof(Lane), mask = (1u << bits) - 1;
    unsigned result = 0;
    for (unsigned at = 0; at < 32; at += bits) {
        result |= ((unsigned)op((int)(Lane)(a >> at & mask), (int)(Lane)(b >> at & mask)) & mask) << at;
    }
    return result;
}

template <class Lane, class Op>
inline __attribute__((always_inline)) unsigned each(unsigned a, unsigned b, unsigned c, Op op) {
    constexpr unsigned bits = 8 * sizeof(Lane), mask = (1u << bits) - 1;
    unsigned result = 0;
    for (unsigned at = 0; at < 32; at += bits) {
        const int x = (Lane)(a >> at & mask), y = (Lane)(b >> at & mask), z = (Lane)(c >> at & mask);
        result |= ((unsigned)op(x, y, z) & mask) << at;
    }
    return result;
}

inline int within(int x, int least, int most) { return x < least ? least : x > most ? most : x; }
inline int smaller(int x, int y) { return x < y ? x : y; }
inline int larger(int x, int y) { return x > y ? x : y; }
}  // namespace cuemu

#define CUEMU_BINARY(name, Lane, result)                                                                          \
    inline unsigned name(unsigned a, unsigned b) {                                                                \
        return cuemu::each<Lane>(a, b, [](int x, int y) { return result; });                                      \
    }
#define CUEMU_UNARY(name, Lane, result)                                                                           \
    inline unsigned name(unsigned a) {                                                                            \
        return cuemu::each<Lane>(a, 0u, [](int x, int) { return result; });                                       \
    }
// A comparison gives all ones (`__vcmp`) or one (`__vset`).
#define CUEMU_COMPARE(name, parts, Lane, condition)                                                               \
    CUEMU_BINARY(__vcmp##name##parts, Lane, (condition) ? -1 : 0)                                                 \
    CUEMU_BINARY(__vset##name##parts, Lane, (condition) ? 1 : 0)
#define CUEMU_SUM(name, Lane)                                                                                     \
    inline unsigned name(unsigned a, unsigned b) {                                                                \
        unsigned sum = 0;                                                                                         \
        cuemu::each<Lane>(a, b, [&sum](int x, int y) { return sum += (unsigned)(x > y ? x - y : y - x), 0; });    \
        return sum;                                                                                               \
    }

#define CUEMU_PACKED(parts, Signed, Unsigned, least, most, all)                                                   \
    CUEMU_BINARY(__vadd##parts, Unsigned, x + y)                                                                  \
    CUEMU_BINARY(__vsub##parts, Unsigned, x - y)                                                                  \
    CUEMU_BINARY(__vaddss##parts, Signed, cuemu::within(x + y, least, most))                                      \
    CUEMU_BINARY(__vsubss##parts, Signed, cuemu::within(x - y, least, most))                                      \
    CUEMU_BINARY(__vaddus##parts, Unsigned, cuemu::within(x + y, 0, all))                                         \
    CUEMU_BINARY(__vsubus##parts, Unsigned, cuemu::within(x - y, 0, all))                                         \
    CUEMU_BINARY(__vabsdiffs##parts, Signed, x > y ? x - y : y - x)                                               \
    CUEMU_BINARY(__vabsdiffu##parts, Unsigned, x > y ? x - y : y - x)                                             \
    CUEMU_BINARY(__vavgs##parts, Signed, (x + y + (x + y >= 0)) >> 1)                                             \
    CUEMU_BINARY(__vavgu##parts, Unsigned, (x + y + 1) >> 1)                                                      \
    CUEMU_BINARY(__vhaddu##parts, Unsigned, (x + y) >> 1)                                                         \
    CUEMU_BINARY(__vmins##parts, Signed, cuemu::smaller(x, y))                                                    \
    CUEMU_BINARY(__vminu##parts, Unsigned, cuemu::smaller(x, y))                                                  \
    CUEMU_BINARY(__vmaxs##parts, Signed, cuemu::larger(x, y))                                                     \
    CUEMU_BINARY(__vmaxu##parts, Unsigned, cuemu::larger(x, y))                                                   \
    CUEMU_UNARY(__vneg##parts, Signed, -x)                                                                        \
    CUEMU_UNARY(__vnegss##parts, Signed, cuemu::within(-x, least, most))                                          \
    CUEMU_UNARY(__vabs##parts, Signed, x < 0 ? -x : x)                                                            \
    CUEMU_UNARY(__vabsss##parts, Signed, cuemu::within(x < 0 ? -x : x, least, most))                              \
    CUEMU_COMPARE(eq, parts, Unsigned, x == y)                                                                    \
    CUEMU_COMPARE(ne, parts, Unsigned, x != y)                                                                    \
    CUEMU_COMPARE(ges, parts, Signed, x >= y)                                                                     \
    CUEMU_COMPARE(geu, parts, Unsigned, x >= y)                                                                   \
    CUEMU_COMPARE(gts, parts, Signed, x > y)                                                                      \
    CUEMU_COMPARE(gtu, parts, Unsigned, x > y)                                                                    \
    CUEMU_COMPARE(les, parts, Signed, x <= y)                                                                     \
    CUEMU_COMPARE(leu, parts, Unsigned, x <= y)                                                                   \
    CUEMU_COMPARE(lts, parts, Signed, x < y)                                                                      \
    CUEMU_COMPARE(ltu, parts, Unsigned, x < y)                                                                    \
    CUEMU_SUM(__vsads##parts, Signed)                                                                             \
    CUEMU_SUM(__vsadu##parts, Unsigned)

CUEMU_PACKED(2, short, unsigned short, -32768, 32767, 65535)
CUEMU_PACKED(4, signed char, unsigned char, -128, 127, 255)

// Additions of the `viadd` family wrap before the comparison.
#define CUEMU_ADD_THEN(name, Lane, pick)                                                                          \
    inline unsigned name(unsigned a, unsigned b, unsigned c) {                                                    \
        return cuemu::each<Lane>(a, b, c, [](int x, int y, int z) { return cuemu::pick((Lane)(x + y), z); });     \
    }
#define CUEMU_OF_THREE(name, Lane, pick)                                                                          \
    inline unsigned name(unsigned a, unsigned b, unsigned c) {                                                    \
        return cuemu::each<Lane>(a, b, c, [](int x, int y, int z) { return cuemu::pick(cuemu::pick(x, y), z); }); \
    }
CUEMU_ADD_THEN(__viaddmin_u16x2, unsigned short, smaller)
CUEMU_ADD_THEN(__viaddmax_u16x2, unsigned short, larger)
CUEMU_ADD_THEN(__viaddmin_s16x2, short, smaller)
CUEMU_ADD_THEN(__viaddmax_s16x2, short, larger)
CUEMU_OF_THREE(__vimin3_u16x2, unsigned short, smaller)
CUEMU_OF_THREE(__vimax3_u16x2, unsigned short, larger)
CUEMU_OF_THREE(__vimin3_s16x2, short, smaller)
CUEMU_OF_THREE(__vimax3_s16x2, short, larger)

inline unsigned __viaddmin_u32(unsigned a, unsigned b, unsigned c) { return a + b < c ? a + b : c; }
inline unsigned __viaddmax_u32(unsigned a, unsigned b, unsigned c) { return a + b > c ? a + b : c; }
inline int __viaddmin_s32(int a, int b, int c) { return cuemu::smaller((int)((unsigned)a + (unsigned)b), c); }
inline int __viaddmax_s32(int a, int b, int c) { return cuemu::larger((int)((unsigned)a + (unsigned)b), c); }
inline unsigned __vimin3_u32(unsigned a, unsigned b, unsigned c) { return umin(umin(a, b), c); }
inline unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c) { return umax(umax(a, b), c); }
inline int __vimin3_s32(int a, int b, int c) { return cuemu::smaller(cuemu::smaller(a, b), c); }
inline int __vimax3_s32(int a, int b, int c) { return cuemu::larger(cuemu::larger(a, b), c); }

#undef CUEMU_BINARY
#undef CUEMU_UNARY
#undef CUEMU_COMPARE
#undef CUEMU_SUM
#undef CUEMU_PACKED
#undef CUEMU_ADD_THEN
#undef CUEMU_OF_THREE
