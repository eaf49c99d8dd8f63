// Integer and cast intrinsics.
#pragma once

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

// Three bits of each nibble select a byte. The instruction can also replicate a sign, by the fourth bit; this call cannot.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned byte = selectors >> (4 * i) & 7u;
        result |= (unsigned)(bytes >> (8 * byte) & 0xffu) << (8 * i);
    }
    return result;
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31u) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31u));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32u ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32u ? high : __funnelshift_r(low, high, shift);
}

inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
inline unsigned __usad(unsigned x, unsigned y, unsigned sum) { return (x > y ? x - y : y - x) + sum; }

// Four products of bytes and a sum, modulo 2^32.
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int at = 0; at < 32; at += 8) sum += (x >> at & 0xffu) * (y >> at & 0xffu);
    return sum;
}
inline int __dp4a(int x, int y, int sum) {
    unsigned total = (unsigned)sum;
    for (int at = 0; at < 32; at += 8) total += (unsigned)((signed char)(x >> at) * (signed char)(y >> at));
    return (int)total;
}

inline void __trap() { __builtin_trap(); }

namespace cuemu {
template <class To, class From>
inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps their number");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace cuemu

inline float __int_as_float(int x) { return cuemu::same_bits<float>(x); }
inline int __float_as_int(float x) { return cuemu::same_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return cuemu::same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return cuemu::same_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return cuemu::same_bits<double>(x); }
inline long long __double_as_longlong(double x) { return cuemu::same_bits<long long>(x); }

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

#define CUEMU_MIN_MAX(type)                                                                                       \
    inline type min(type x, type y) { return y < x ? y : x; }                                                     \
    inline type max(type x, type y) { return x < y ? y : x; }
CUEMU_MIN_MAX(int)
CUEMU_MIN_MAX(unsigned)
CUEMU_MIN_MAX(long)
CUEMU_MIN_MAX(unsigned long)
CUEMU_MIN_MAX(long long)
CUEMU_MIN_MAX(unsigned long long)
#undef CUEMU_MIN_MAX
// A number that is not one loses against any other.
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline double min(double x, double y) { return __builtin_fmin(x, y); }
inline double max(double x, double y) { return __builtin_fmax(x, y); }
// Of two types that differ only in sign, CUDA takes the unsigned one.
inline unsigned min(unsigned x, int y) { return min(x, (unsigned)y); }
inline unsigned min(int x, unsigned y) { return min((unsigned)x, y); }
inline unsigned max(unsigned x, int y) { return max(x, (unsigned)y); }
inline unsigned max(int x, unsigned y) { return max((unsigned)x, y); }
inline unsigned umin(unsigned x, unsigned y) { return min(x, y); }
inline unsigned umax(unsigned x, unsigned y) { return max(x, y); }
inline int abs(int x) { return x < 0 ? -x : x; }
