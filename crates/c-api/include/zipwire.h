/* Lossless compression of tensors: the codecs of zipwire, for C and whatever calls C.
 *
 * A frame holds the values of a tensor or of a part of one, and says itself what they are. All functions can be called from any thread at any time; they
 * start none. Buffers and results of one call must not overlap. Link with -lzipwire_c. */
#ifndef ZIPWIRE_H
#define ZIPWIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Type of the values, which are little-endian. */
enum zipwire_type {
    ZIPWIRE_BF16 = 0,
    ZIPWIRE_F16 = 1,
    ZIPWIRE_F32 = 2,
    ZIPWIRE_F8_E4M3 = 3,
    ZIPWIRE_F8_E5M2 = 4
};

/* Results of functions; zipwire_message says what is wrong. */
enum zipwire_status {
    ZIPWIRE_OK = 0,
    /* A null pointer, an unknown type or codec, a codec that does not take the type, or bytes that are no whole number of values. */
    ZIPWIRE_BAD_ARGUMENT = 1,
    /* The buffer for the result is too short: *frame_bytes or *values_bytes is then the length that is needed. */
    ZIPWIRE_TOO_SHORT = 2,
    /* The bytes are no frame, or a damaged one. */
    ZIPWIRE_BAD_FRAME = 3,
    /* A defect of this library. */
    ZIPWIRE_INTERNAL = 4,
    /* A frame that this library does not read, and another one may: of a later version, an unknown codec, or read with a table or a base. */
    ZIPWIRE_UNSUPPORTED = 5,
    /* There is no memory for what the codec needs beside the buffers. */
    ZIPWIRE_NO_MEMORY = 6
};

/* Header of a frame. */
struct zipwire_info {
    /* Codec that it was made by, with a zero at the end. */
    char codec[32];
    /* One of enum zipwire_type. */
    int32_t type;
    /* Id of the table that it is read with, or 0: such frames are not read by this library. */
    uint32_t table;
    /* Bytes of the values. */
    uint64_t values_bytes;
    /* Bytes of the frame. */
    uint64_t frame_bytes;
};

/* The most bytes that a frame of so many bytes of values takes. `codec` is a spec, such as "tiered", "rans" or "auto"; NULL is "tiered". */
int zipwire_bound(const char *codec, int type, size_t values_bytes, size_t *bound);

/* Compresses values into the front of `frame`, which has zipwire_bound bytes or more, and says how many bytes the frame has. */
int zipwire_compress(const char *codec, int type, const void *values, size_t values_bytes, void *frame, size_t capacity,
                     size_t *frame_bytes);

/* Reads the header of a frame, of which the first 32 bytes are enough. Takes constant time, whatever the bytes are. */
int zipwire_peek(const void *frame, size_t bytes, struct zipwire_info *info);

/* Decompresses a frame into the front of `values`, and says how many bytes these have. Memory that a frame asks for is bounded by `capacity`. */
int zipwire_decompress(const void *frame, size_t frame_bytes, void *values, size_t capacity, size_t *values_bytes);

/* What is wrong with the last call of this thread that failed, in a line; empty if none did. Valid until the next call of this thread. */
const char *zipwire_message(void);

/* Version of this library, such as "0.1.0". */
const char *zipwire_version(void);

#ifdef __cplusplus
}
#endif

#endif
