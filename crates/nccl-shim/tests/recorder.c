/* A libnccl.so.2 for tests: every call is a line with its arguments on stdout. Names are weak, with strong twins, as in NCCL. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PREFIX
#define PREFIX ""
#endif

typedef void* ptr;
typedef struct {
    char bytes[128];
} id;

#define CALL(name, types, ...)                             \
    int pnccl##name types { return record(#name, __VA_ARGS__); } \
    int nccl##name types __attribute__((weak, alias("pnccl" #name)));

#define L(x) (long)(x)
/* Result of the function that RECORDER_RESULT names, as in `CommInitRank:4`; 0 of all others. */
static int result_of(const char* name) {
    const char* planted = getenv("RECORDER_RESULT");
    size_t length = strlen(name);
    return planted && !strncmp(planted, name, length) && planted[length] == ':' ? atoi(planted + length + 1) : 0;
}

/* Whether the last communicator is still being made: until the program asks whether it is. */
static int in_progress;
int ncclCommGetAsyncError(ptr c, int* state) {
    (void)c;
    *state = in_progress = 0;
    return 0;
}

static int record(const char* name, long a, long b, long c, long d, long e, long f, long g, long h) {
    if (!getenv("RECORDER_QUIET")) {
        printf(PREFIX "%s %ld %ld %ld %ld %ld %ld %ld %ld\n", name, a, b, c, d, e, f, g, h);
        fflush(stdout);
    }
    int result = result_of(name);
    in_progress = result == 7;
    return result;
}

CALL(AllGather, (ptr s, ptr r, size_t n, int d, ptr c, ptr t), L(s), L(r), L(n), d, L(c), L(t), 0, 0)
CALL(AllReduce, (ptr s, ptr r, size_t n, int d, int o, ptr c, ptr t), L(s), L(r), L(n), d, o, L(c), L(t), 0)
CALL(ReduceScatter, (ptr s, ptr r, size_t n, int d, int o, ptr c, ptr t), L(s), L(r), L(n), d, o, L(c), L(t), 0)
CALL(Reduce, (ptr s, ptr r, size_t n, int d, int o, int p, ptr c, ptr t), L(s), L(r), L(n), d, o, p, L(c), L(t))
CALL(Broadcast, (ptr s, ptr r, size_t n, int d, int p, ptr c, ptr t), L(s), L(r), L(n), d, p, L(c), L(t), 0)
CALL(Bcast, (ptr b, size_t n, int d, int p, ptr c, ptr t), L(b), L(n), d, p, L(c), L(t), 0, 0)
#ifndef OLD
CALL(AlltoAll, (ptr s, ptr r, size_t n, int d, ptr c, ptr t), L(s), L(r), L(n), d, L(c), L(t), 0, 0)
#endif
CALL(Gather, (ptr s, ptr r, size_t n, int d, int p, ptr c, ptr t), L(s), L(r), L(n), d, p, L(c), L(t), 0)
CALL(Scatter, (ptr s, ptr r, size_t n, int d, int p, ptr c, ptr t), L(s), L(r), L(n), d, p, L(c), L(t), 0)
CALL(Send, (ptr b, size_t n, int d, int p, ptr c, ptr t), L(b), L(n), d, p, L(c), L(t), 0, 0)
CALL(Recv, (ptr b, size_t n, int d, int p, ptr c, ptr t), L(b), L(n), d, p, L(c), L(t), 0, 0)
CALL(GroupStart, (void), 0, 0, 0, 0, 0, 0, 0, 0)
CALL(GroupEnd, (void), 0, 0, 0, 0, 0, 0, 0, 0)
CALL(GroupSimulateEnd, (ptr i), L(i), 0, 0, 0, 0, 0, 0, 0)
CALL(CommDestroy, (ptr c), L(c), 0, 0, 0, 0, 0, 0, 0)
CALL(CommAbort, (ptr c), L(c), 0, 0, 0, 0, 0, 0, 0)

/* Communicators are numbers: rank 1 of 4. */
#define MAKES(name, types, handle, ...)                                     \
    int pnccl##name types {                                                 \
        *handle = (ptr)0x1000;                                              \
        return record(#name, __VA_ARGS__);                                  \
    }                                                                       \
    int nccl##name types __attribute__((weak, alias("pnccl" #name)));

MAKES(CommInitRank, (ptr * m, int n, id i, int r), m, n, i.bytes[0], i.bytes[127], r, 0, 0, 0, 0)
MAKES(CommInitRankConfig, (ptr * m, int n, id i, int r, ptr f), m, n, i.bytes[0], i.bytes[127], r, L(f), 0, 0, 0)
MAKES(CommInitRankScalable, (ptr * m, int n, int r, int k, id* i, ptr f), m, n, r, k, i->bytes[127], L(f), 0, 0, 0)
MAKES(CommInitAll, (ptr * m, int n, const int* v), m, n, L(v), 0, 0, 0, 0, 0, 0)
MAKES(CommSplit, (ptr c, int o, int k, ptr* m, ptr f), m, L(c), o, k, L(f), 0, 0, 0, 0)
MAKES(CommShrink, (ptr c, int* x, int k, ptr* m, ptr f, int g), m, L(c), L(x), k, L(f), g, 0, 0, 0)
MAKES(CommGrow, (ptr c, int n, const id* i, int r, ptr* m, ptr f), m, L(c), n, i->bytes[127], r, L(f), 0, 0, 0)

static int early(void) {
    fprintf(stderr, "a communicator is asked before it is made\n");
    return 5;
}
int pncclCommUserRank(ptr c, int* rank) {
    (void)c;
    if (in_progress) return early();
    *rank = 1;
    return 0;
}
int pncclCommCount(ptr c, int* count) {
    (void)c;
    if (in_progress) return early();
    *count = 4;
    return 0;
}
int ncclCommUserRank(ptr c, int* rank) __attribute__((weak, alias("pncclCommUserRank")));
int ncclCommCount(ptr c, int* count) __attribute__((weak, alias("pncclCommCount")));

/* Names that no version has yet. */
int ncclOfTheFuture(int x) { return x + 1; }
int ncclGetVersion(int* version) {
    *version = 23007;
    return 0;
}
