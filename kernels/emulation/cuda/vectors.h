// Vector types, aligned as on a device.
#pragma once

#define CUEMU_VECTORS(name, element)                                                                              \
    struct name##1 {                                                                                              \
        element x;                                                                                                \
    };                                                                                                            \
    struct __align__(2 * sizeof(element)) name##2 {                                                               \
        element x, y;                                                                                             \
    };                                                                                                            \
    struct name##3 {                                                                                              \
        element x, y, z;                                                                                          \
    };                                                                                                            \
    struct __align__(4 * sizeof(element) < 16 ? 4 * sizeof(element) : 16) name##4 {                               \
        element x, y, z, w;                                                                                       \
    };                                                                                                            \
    inline name##1 make_##name##1(element x) {                                                                    \
        return {x};                                                                                               \
    }                                                                                                             \
    inline name##2 make_##name##2(element x, element y) {                                                         \
        return {x, y};                                                                                            \
    }                                                                                                             \
    inline name##3 make_##name##3(element x, element y, element z) {                                              \
        return {x, y, z};                                                                                         \
    }                                                                                                             \
    inline name##4 make_##name##4(element x, element y, element z, element w) {                                   \
        return {x, y, z, w};                                                                                      \
    }

CUEMU_VECTORS(char, signed char)
CUEMU_VECTORS(uchar, unsigned char)
CUEMU_VECTORS(short, short)
CUEMU_VECTORS(ushort, unsigned short)
CUEMU_VECTORS(int, int)
CUEMU_VECTORS(uint, unsigned)
CUEMU_VECTORS(longlong, long long)
CUEMU_VECTORS(ulonglong, unsigned long long)
CUEMU_VECTORS(float, float)
CUEMU_VECTORS(double, double)
#undef CUEMU_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 size) : x(size.x), y(size.y), z(size.z) {}
};
