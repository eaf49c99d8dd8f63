/* Every function of zipwire.h, with results that are known. Prints nothing and returns 0 if all is well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipwire.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, zipwire_message()); \
            return 1; \
        } \
    } while (0)

enum { BYTES = 1 << 16 };

/* BF16 values near 1, which compress; of other types, whatever these bytes are. */
static void fill(unsigned char *values) {
    unsigned state = 12345;
    for (int i = 0; i < BYTES; i += 2) {
        state = state * 1103515245u + 12345u;
        values[i] = (unsigned char)(state >> 16);
        values[i + 1] = (unsigned char)(0x3e + ((state >> 28) & 1));
    }
}

static int round_trip(const char *codec, int type, const unsigned char *values) {
    size_t bound = 0, frame_bytes = 0, bytes = 0;
    struct zipwire_info info;
    CHECK(zipwire_bound(codec, type, BYTES, &bound) == ZIPWIRE_OK);
    CHECK(bound > BYTES && bound < BYTES + BYTES / 50);
    unsigned char *frame = malloc(bound), *restored = malloc(BYTES);
    CHECK(frame && restored);
    CHECK(zipwire_compress(codec, type, values, BYTES, frame, bound, &frame_bytes) == ZIPWIRE_OK);
    CHECK(frame_bytes > 32 && frame_bytes <= bound);
    CHECK(zipwire_peek(frame, 32, &info) == ZIPWIRE_OK);
    CHECK(info.type == type && info.values_bytes == BYTES && info.frame_bytes == frame_bytes && info.table == 0);
    CHECK(codec == NULL || strcmp(codec, "auto") == 0 ? info.codec[0] != 0 : strcmp(info.codec, codec) == 0);
    CHECK(zipwire_decompress(frame, frame_bytes, restored, BYTES, &bytes) == ZIPWIRE_OK);
    CHECK(bytes == BYTES && memcmp(values, restored, BYTES) == 0);
    CHECK(zipwire_decompress(frame, frame_bytes, restored, BYTES - 1, &bytes) == ZIPWIRE_TOO_SHORT);
    CHECK(bytes == BYTES);
    CHECK(zipwire_decompress(frame, frame_bytes - 1, restored, BYTES, &bytes) == ZIPWIRE_BAD_FRAME);
    frame[frame_bytes - 1] ^= 1;
    CHECK(zipwire_decompress(frame, frame_bytes, restored, BYTES, &bytes) == ZIPWIRE_BAD_FRAME);
    CHECK(strlen(zipwire_message()) > 10);
    if (type == ZIPWIRE_BF16 && codec != NULL && strcmp(codec, "raw") != 0) CHECK(frame_bytes < BYTES * 3 / 4);
    free(frame);
    free(restored);
    return 0;
}

static int refusals(const unsigned char *values) {
    size_t length = 0;
    unsigned char frame[64];
    struct zipwire_info info;
    CHECK(zipwire_bound("tired", ZIPWIRE_BF16, 4, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(strstr(zipwire_message(), "tired") != NULL);
    CHECK(zipwire_bound("delta+rans", ZIPWIRE_BF16, 4, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_bound("huffman", ZIPWIRE_F32, 4, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_bound(NULL, 5, 4, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_bound(NULL, -1, 4, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_bound(NULL, ZIPWIRE_BF16, 3, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_bound(NULL, ZIPWIRE_BF16, 4, NULL) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, NULL, 4, frame, sizeof frame, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, values, 4, NULL, 64, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, values, 4, frame, 8, &length) == ZIPWIRE_TOO_SHORT);
    CHECK(length > 8);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, NULL, 0, frame, sizeof frame, &length) == ZIPWIRE_OK);
    CHECK(zipwire_peek(frame, length, &info) == ZIPWIRE_OK && info.values_bytes == 0);
    CHECK(zipwire_peek("no frame, and yet more than 32 bytes of it", 40, &info) == ZIPWIRE_BAD_FRAME);
    CHECK(zipwire_peek(frame, 31, &info) == ZIPWIRE_BAD_FRAME);
    CHECK(zipwire_peek(NULL, 32, &info) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_decompress(NULL, 32, frame, sizeof frame, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_decompress(values, SIZE_MAX, frame, sizeof frame, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, values, 4, frame, SIZE_MAX, &length) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_compress(NULL, ZIPWIRE_BF16, values, 4, frame, sizeof frame, NULL) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(zipwire_decompress(frame, length, frame, 0, NULL) == ZIPWIRE_BAD_ARGUMENT);
    frame[5] = 200;
    frame[4] = 2;
    CHECK(zipwire_peek(frame, 32, &info) == ZIPWIRE_UNSUPPORTED);
    CHECK(zipwire_peek(frame, 32, NULL) == ZIPWIRE_BAD_ARGUMENT);
    CHECK(strchr(zipwire_version(), '.') != NULL);
    return 0;
}

int main(void) {
    static unsigned char values[BYTES];
    const char *codecs[] = {NULL, "tiered", "rans", "auto", "raw"};
    fill(values);
    for (int type = ZIPWIRE_BF16; type <= ZIPWIRE_F8_E5M2; type++) {
        for (size_t codec = 0; codec < sizeof codecs / sizeof *codecs; codec++) {
            if (round_trip(codecs[codec], type, values)) return 1;
        }
    }
    return refusals(values);
}
