// One row of results per intrinsic: `out[i + count * row]` for the inputs of index `i`.
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void intrinsics(const u32* a, const u32* b, const u32* c, u32* out, u32 count) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const u32 x = a[i], y = b[i], z = c[i];
    const u64 wide = (u64)y << 32 | x;
    u32* row = out + i;
#define PUT(value)        \
    *row = (u32)(value);  \
    row += count
#define PACKED(parts)                \
    PUT(__vadd##parts(x, y));        \
    PUT(__vsub##parts(x, y));        \
    PUT(__vaddss##parts(x, y));      \
    PUT(__vsubss##parts(x, y));      \
    PUT(__vaddus##parts(x, y));      \
    PUT(__vsubus##parts(x, y));      \
    PUT(__vabsdiffu##parts(x, y));   \
    PUT(__vavgu##parts(x, y));       \
    PUT(__vmins##parts(x, y));       \
    PUT(__vminu##parts(x, y));       \
    PUT(__vmaxs##parts(x, y));       \
    PUT(__vmaxu##parts(x, y));       \
    PUT(__vneg##parts(x));           \
    PUT(__vcmpeq##parts(x, y));      \
    PUT(__vcmpgtu##parts(x, y));     \
    PUT(__vcmpgts##parts(x, y));     \
    PUT(__vcmpleu##parts(x, y));     \
    PUT(__vsetltu##parts(x, y));     \
    PUT(__vsadu##parts(x, y))
    PACKED(2);
    PACKED(4);
    PUT(__viaddmin_u16x2(x, y, z));
    PUT(__viaddmax_s16x2(x, y, z));
    PUT(__vimin3_u16x2(x, y, z));
    PUT(__byte_perm(x, y, z));
    PUT(__funnelshift_l(x, y, z));
    PUT(__funnelshift_r(x, y, z));
    PUT(__funnelshift_lc(x, y, z & 63u));
    PUT(__funnelshift_rc(x, y, z & 63u));
    PUT(__umulhi(x, y));
    PUT(__mulhi((int)x, (int)y));
    PUT(__popc(x));
    PUT(__popcll((long long)wide));
    PUT(__ffs((int)x));
    PUT(__ffsll((long long)wide));
    PUT(__clz((int)x));
    PUT(__clzll((long long)wide));
    PUT(__brev(x));
    PUT(__usad(x, y, z));
    PUT(__dp4a(x, y, z));
    PUT(__dp4a((int)x, (int)y, (int)z));
    PUT(min(x, y));
    PUT(max((int)x, (int)y));
}
