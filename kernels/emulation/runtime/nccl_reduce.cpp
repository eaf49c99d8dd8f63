#include "nccl_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fakenccl {
namespace {
template <class To, class From>
To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// How a value is stored, and what it is computed as.
template <class T>
struct Plain {
    using Stored = T;
    using Computed = T;
    static T load(T value) { return value; }
    static T store(T value) { return value; }
};
struct Bf16 {
    using Stored = uint16_t;
    using Computed = float;
    static float load(uint16_t value) { return bits<float>(uint32_t{value} << 16); }
    static uint16_t store(float value) {
        const auto all = bits<uint32_t>(value);
        if (std::isnan(value)) return static_cast<uint16_t>((all >> 16) | 0x40);
        return static_cast<uint16_t>((all + 0x7fff + ((all >> 16) & 1)) >> 16);
    }
};
struct F16 {
    using Stored = uint16_t;
    using Computed = float;
    static float load(uint16_t value) {
        const int exponent = (value >> 10) & 31, mantissa = value & 1023;
        float size = std::ldexp(static_cast<float>(mantissa), -24);
        if (exponent == 31) size = mantissa ? NAN : INFINITY;
        else if (exponent) size = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
        return value & 0x8000 ? -size : size;
    }
    static uint16_t store(float value) {
        const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
        const float size = std::fabs(value);
        if (std::isnan(value)) return sign | 0x7e00;
        if (size >= 65520.0f) return sign | 0x7c00;
        // Steps between neighbours here; the sum of bits carries into the exponent.
        const int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
        const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
        return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps));
    }
};

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
    switch (op) {
        case ncclProd: return static_cast<T>(a * b);
        case ncclMax: return std::max(a, b);
        case ncclMin: return std::min(a, b);
        default: return static_cast<T>(a + b);
    }
}

template <class Type>
void run(const std::vector<const char*>& parts, char* out, size_t count, ncclRedOp_t op) {
    using Stored = typename Type::Stored;
    const auto at = [](const char* part, size_t i) {
        Stored value;
        memcpy(&value, part + i * sizeof value, sizeof value);
        return Type::load(value);
    };
    for (size_t i = 0; i < count; ++i) {
        typename Type::Computed sum = at(parts[0], i);
        for (size_t part = 1; part < parts.size(); ++part) sum = combine(sum, at(parts[part], i), op);
        if (op == ncclAvg) sum = static_cast<typename Type::Computed>(sum / static_cast<typename Type::Computed>(parts.size()));
        const Stored value = Type::store(sum);
        memcpy(out + i * sizeof value, &value, sizeof value);
    }
}
}  // namespace

size_t size_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8:
        case ncclFloat8e4m3:
        case ncclFloat8e5m2: return 1;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        case ncclInt32:
        case ncclUint32:
        case ncclFloat32: return 4;
        case ncclInt64:
        case ncclUint64:
        case ncclFloat64: return 8;
        default: return 0;
    }
}

bool is_reduced(ncclDataType_t type) {
    return size_of(type) && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

void reduce(const std::vector<const char*>& parts, char* out, size_t count, ncclDataType_t type, ncclRedOp_t op) {
    switch (type) {
        case ncclInt8: return run<Plain<int8_t>>(parts, out, count, op);
        case ncclUint8: return run<Plain<uint8_t>>(parts, out, count, op);
        case ncclInt32: return run<Plain<int32_t>>(parts, out, count, op);
        case ncclUint32: return run<Plain<uint32_t>>(parts, out, count, op);
        case ncclInt64: return run<Plain<int64_t>>(parts, out, count, op);
        case ncclUint64: return run<Plain<uint64_t>>(parts, out, count, op);
        case ncclFloat16: return run<F16>(parts, out, count, op);
        case ncclFloat32: return run<Plain<float>>(parts, out, count, op);
        case ncclFloat64: return run<Plain<double>>(parts, out, count, op);
        default: return run<Bf16>(parts, out, count, op);
    }
}
}  // namespace fakenccl
