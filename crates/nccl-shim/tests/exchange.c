/* A rank of a job that exchanges messages of many kinds and looks at every byte that comes.
   `exchange WHAT RANK RANKS ID_FILE SEED ROUNDS`. What each rank sends in each round follows from the seed, so that receivers know it. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void* ptr;
typedef unsigned long long u64;
typedef struct {
    char bytes[128];
} id;

int cuInit(unsigned);
void fakecuda_set_memory(uint64_t);
int cuDevicePrimaryCtxRetain(ptr*, int);
int cuCtxSetCurrent(ptr);
int fakenccl_async_fail(uint64_t);
int cuCtxGetCurrent(ptr*);
int cuStreamCreate(ptr*, unsigned);
int cuStreamSynchronize(ptr);
int cuMemAlloc_v2(u64*, size_t);
int cuMemcpyHtoD_v2(u64, const void*, size_t);
int cuMemcpyDtoH_v2(void*, u64, size_t);
int cuStreamBeginCapture_v2(ptr, int);
int cuStreamEndCapture(ptr, ptr*);
int cuGraphInstantiateWithFlags(ptr*, ptr, u64);
int cuGraphLaunch(ptr, ptr);
int ncclGetUniqueId(id*);
int ncclCommInitRank(ptr*, int, id, int);
int ncclCommSplit(ptr, int, int, ptr*, ptr);
int ncclCommDestroy(ptr);
int ncclCommAbort(ptr);
int ncclCommInitAll(ptr*, int, const int*);
int ncclCommGetAsyncError(ptr, int*);
int ncclCommInitRankConfig(ptr*, int, id, int, ptr);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(u64, size_t, int, int, ptr, ptr);
int ncclRecv(u64, size_t, int, int, ptr, ptr);
int ncclAllGather(u64, u64, size_t, int, ptr, ptr);
int ncclAlltoAll(u64, u64, size_t, int, ptr, ptr);
int ncclBroadcast(u64, u64, size_t, int, int, ptr, ptr);
int ncclBcast(u64, size_t, int, int, ptr, ptr);
int ncclAllReduce(u64, u64, size_t, int, int, ptr, ptr);

enum { BYTES = 1, INT = 2, FLOAT = 7, BF16 = 9 };

static int rank, ranks, round_number;

static void must(int result, const char* what) {
    if (result == 0) return;
    fprintf(stderr, "rank %d, round %d: %s: %d\n", rank, round_number, what, result);
    exit(1);
}
#define MUST(call) must(call, #call)

static uint64_t next(uint64_t* state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state >> 32 ^ *state;
    return x * 0x9E3779B97F4A7C15u >> 16;
}

/* Values such as weights have, or random bits, which no codec makes smaller; or all the same float, which is the seed. */
enum { WEIGHTS, NOISE, FLOATS };
static void fill(uint8_t* out, size_t bytes, int noise, uint64_t seed) {
    uint64_t state = seed;
    float same = (float)seed;
    if (noise == FLOATS) {
        for (size_t at = 0; at < bytes; at += 4) memcpy(out + at, &same, 4);
        return;
    }
    for (size_t at = 0; at < bytes; at += 2) {
        uint64_t x = next(&state);
        unsigned exponent = 120 - __builtin_ctz((unsigned)(x & 0xFFF) | 0x1000);
        unsigned value = noise ? x & 0xFFFF : (x >> 20 & 0x807F) | exponent << 7;
        out[at] = value & 0xFF;
        if (at + 1 < bytes) out[at + 1] = value >> 8;
    }
}

/* Memory that messages are in, taken front to back and anew in each round. */
enum { MEMORY = 64 << 20 };
static u64 memory;
static size_t taken;
static uint8_t* host;

static u64 take(size_t bytes, size_t shift) {
    u64 at = memory + taken + shift;
    taken += (bytes + shift + 255) / 256 * 256;
    if (taken > MEMORY) must(1, "memory");
    return at;
}

static u64 filled(size_t bytes, size_t shift, int noise, uint64_t seed) {
    u64 at = take(bytes, shift);
    fill(host, bytes, noise, seed);
    if (bytes) MUST(cuMemcpyHtoD_v2(at, host, bytes));
    return at;
}

/* Values that must be at an address when all is done. */
typedef struct {
    u64 at;
    size_t bytes;
    int noise;
    uint64_t seed;
} expected;
static expected all[4096];
static int count;
static uint64_t digest = 1;

static void expect(u64 at, size_t bytes, int noise, uint64_t seed) {
    all[count++] = (expected){at, bytes, noise, seed};
}

static void look(void) {
    static uint8_t* right;
    if (!right) right = malloc(MEMORY);
    for (int k = 0; k < count; k++) {
        expected e = all[k];
        fill(right, e.bytes, e.noise, e.seed);
        if (e.bytes) MUST(cuMemcpyDtoH_v2(host, e.at, e.bytes));
        if (memcmp(host, right, e.bytes)) {
            size_t at = 0;
            while (host[at] == right[at]) at++;
            fprintf(stderr, "rank %d, round %d: message %d of %zu bytes is wrong at %zu\n", rank, round_number, k, e.bytes, at);
            exit(1);
        }
        for (size_t at = 0; at < e.bytes; at++) digest = (digest ^ host[at]) * 0x100000001B3u;
    }
    count = 0;
    taken = 0;
}

static size_t width(int type) { return type == BYTES ? 1 : type == BF16 ? 2 : 4; }

typedef struct {
    int from, to, type, noise, comm, stream;
    size_t count, shift[2];
    uint64_t seed;
} message;

static ptr comms[2], streams[2];

static void move(message m) {
    size_t bytes = m.count * width(m.type);
    if (m.from == rank) MUST(ncclSend(filled(bytes, m.shift[0], m.noise, m.seed), m.count, m.type, m.to, comms[m.comm], streams[m.stream]));
    if (m.to == rank) {
        u64 at = take(bytes, m.shift[1]);
        MUST(ncclRecv(at, m.count, m.type, m.from, comms[m.comm], streams[m.stream]));
        expect(at, bytes, m.noise, m.seed);
    }
}

static size_t some_count(uint64_t* state) {
    static const size_t counts[] = {0, 1, 1000, 8192, 12345, 16384, 30001, 8191};
    return counts[next(state) % 8];
}

/* Messages between any ranks, to themselves as well: in one group, or one after the other. */
static void messages(uint64_t* state) {
    static const int types[] = {BF16, BF16, BF16, BYTES, FLOAT, INT};
    int total = 1 + next(state) % 6, grouped = next(state) % 4 > 0;
    /* Two communicators in one stream would run in an order that each rank takes from its own messages. */
    int two_comms = next(state) % 2;
    if (grouped) MUST(ncclGroupStart());
    for (int k = 0; k < total; k++) {
        message m;
        m.from = next(state) % ranks;
        m.to = next(state) % ranks;
        if (!grouped && m.to == m.from) m.to = (m.from + 1) % ranks;
        m.type = types[next(state) % 6];
        m.noise = next(state) % 5 == 0;
        m.stream = grouped ? next(state) % 2 : 0;
        m.comm = two_comms ? m.stream : 0;
        m.count = some_count(state);
        m.shift[0] = next(state) % 4 ? 0 : 4;
        m.shift[1] = next(state) % 4 ? 0 : 8;
        m.seed = next(state);
        if (grouped && k == 2) MUST(ncclGroupStart());
        move(m);
        if (grouped && k == 2) MUST(ncclGroupEnd());
    }
    if (grouped) MUST(ncclGroupEnd());
}

static uint64_t of_rank(uint64_t seed, int r) { return seed + 77 * (uint64_t)r; }

static void collective(uint64_t* state) {
    int kind = next(state) % 6, noisy = next(state) % 6 == 0 ? (int)(next(state) % ranks) : -1, root = next(state) % ranks;
    int stream = next(state) % 2, in_place = next(state) % 2;
    size_t n = some_count(state), bytes = 2 * n;
    uint64_t seed = next(state);
    ptr s = streams[stream], c = comms[0];
    if (kind == 0) {
        u64 out = take(bytes * ranks, 0), in = out + bytes * rank;
        fill(host, bytes, rank == noisy, of_rank(seed, rank));
        if (!in_place) in = filled(bytes, 0, rank == noisy, of_rank(seed, rank));
        else if (bytes) MUST(cuMemcpyHtoD_v2(in, host, bytes));
        MUST(ncclAllGather(in, out, n, BF16, c, s));
        for (int r = 0; r < ranks; r++) expect(out + bytes * r, bytes, r == noisy, of_rank(seed, r));
    } else if (kind == 1) {
        u64 in = take(bytes * ranks, 0), out = take(bytes * ranks, 0);
        for (int r = 0; r < ranks; r++) {
            fill(host, bytes, rank == noisy, of_rank(seed, rank * ranks + r));
            if (bytes) MUST(cuMemcpyHtoD_v2(in + bytes * r, host, bytes));
            expect(out + bytes * r, bytes, r == noisy, of_rank(seed, r * ranks + rank));
        }
        MUST(ncclAlltoAll(in, out, n, BF16, c, s));
    } else if (kind == 2 || kind == 3) {
        u64 out = take(bytes, 0), in = out;
        if (rank == root) {
            in = filled(bytes, 0, noisy >= 0, seed);
            if (in_place || kind == 3) out = in;
        }
        if (kind == 2) MUST(ncclBroadcast(in, out, n, BF16, root, c, s));
        else MUST(ncclBcast(out, n, BF16, root, c, s));
        expect(out, bytes, noisy >= 0, seed);
    } else {
        /* Sums of small whole numbers are exact in any order. */
        u64 at = filled(4 * n, 0, FLOATS, rank + 1);
        MUST(ncclAllReduce(at, at, n, FLOAT, 0, c, s));
        expect(at, 4 * n, FLOATS, ranks * (ranks + 1) / 2);
    }
}

static void rounds(uint64_t seed, int total) {
    for (round_number = 0; round_number < total; round_number++) {
        uint64_t state = seed * 1000003 + round_number;
        next(&state);
        switch (next(&state) % 3) {
        case 0: collective(&state); break;
        case 1: messages(&state); break;
        default:
            MUST(ncclGroupStart());
            collective(&state);
            collective(&state);
            MUST(ncclGroupEnd());
        }
        for (int k = 0; k < 2; k++) MUST(cuStreamSynchronize(streams[k]));
        look();
    }
}

/* Rank 0 receives before it sends, rank 1 as well, in two streams of two communicators: NCCL's calls do not wait, and so nobody does. */
static void crossed(void) {
    /* Peers that have never met wait for one another in every mode. */
    for (int k = 0; k < 2; k++) {
        MUST(ncclGroupStart());
        for (int from = 0; from < 2; from++) move((message){from, 1 - from, INT, 0, k, k, 10, {0, 0}, 3});
        MUST(ncclGroupEnd());
    }
    message first = {1, 0, BF16, 0, 0, 0, 16384, {0, 0}, 1}, second = {0, 1, BF16, 0, 1, 1, 16384, {0, 0}, 2};
    move(rank == 0 ? first : second);
    move(rank == 0 ? second : first);
    for (int k = 0; k < 2; k++) MUST(cuStreamSynchronize(streams[k]));
    look();
}

/* Messages of a captured stream, which a graph sends twice: as they are, because nothing can be waited for. */
static void captured(void) {
    ptr graph, whole;
    u64 in[2], out[2];
    size_t values = 16384;
    MUST(ncclGroupStart());
    for (int from = 0; from < 2; from++) move((message){from, 1 - from, BF16, 0, 0, 0, values, {0, 0}, 4 + from});
    MUST(ncclGroupEnd());
    MUST(cuStreamSynchronize(streams[0]));
    look();
    in[0] = filled(2 * values, 0, WEIGHTS, 6 + rank);
    out[0] = take(2 * values, 0);
    in[1] = filled(2 * values, 0, WEIGHTS, 8 + rank);
    out[1] = take(4 * values, 0);
    MUST(cuStreamBeginCapture_v2(streams[0], 1));
    MUST(ncclGroupStart());
    MUST(ncclSend(in[0], values, BF16, 1 - rank, comms[0], streams[0]));
    MUST(ncclRecv(out[0], values, BF16, 1 - rank, comms[0], streams[0]));
    MUST(ncclGroupEnd());
    MUST(ncclAllGather(in[1], out[1], values, BF16, comms[0], streams[0]));
    MUST(cuStreamEndCapture(streams[0], &graph));
    MUST(cuGraphInstantiateWithFlags(&whole, graph, 0));
    for (int k = 0; k < 2; k++) {
        MUST(cuGraphLaunch(whole, streams[0]));
        MUST(cuStreamSynchronize(streams[0]));
    }
    expect(out[0], 2 * values, WEIGHTS, 6 + (1 - rank));
    for (int r = 0; r < 2; r++) expect(out[1] + 2 * values * r, 2 * values, WEIGHTS, 8 + r);
    look();
}

/* Peers that know one another, so that the end of a group does not wait for them. */
static void acquaint(int comm) {
    MUST(ncclGroupStart());
    for (int from = 0; from < 2; from++) move((message){from, 1 - from, INT, 0, comm, 0, 10, {0, 0}, 3});
    MUST(ncclGroupEnd());
    MUST(cuStreamSynchronize(streams[0]));
    look();
}

static void* abort_soon(void* comm) {
    usleep(300000);
    MUST(ncclCommAbort(comm));
    return 0;
}

/* Messages whose other end never comes, on a communicator that another thread aborts, or whose work fails: calls that wait return an error. */
static void unanswered(int aborted) {
    for (int comm = 0; comm < 2; comm++) {
        int result;
        pthread_t thread;
        u64 at = filled(4 << 20, 0, WEIGHTS, 5);
        acquaint(comm);
        if (!aborted) fakenccl_async_fail(1);
        if (aborted) pthread_create(&thread, 0, abort_soon, comms[comm]);
        if (comm == 0) result = ncclSend(at, 2 << 20, BF16, 1 - rank, comms[comm], streams[0]);
        else result = ncclRecv(at, 2 << 20, BF16, 1 - rank, comms[comm], streams[0]);
        if (aborted) pthread_join(thread, 0);
        else MUST(ncclCommAbort(comms[comm]));
        fprintf(stderr, "%s returns %d\n", comm == 0 ? "send" : "recv", result);
        comms[comm] = 0;
    }
}

static void* capture(void* stream) {
    ptr graph;
    MUST(cuStreamBeginCapture_v2(stream, 0));
    usleep(500000);
    MUST(cuStreamEndCapture(stream, &graph));
    return 0;
}

/* Messages while another thread captures a stream in the mode in which nobody may allocate or ask for events. */
static void beside_a_capture(void) {
    pthread_t thread;
    u64 in = filled(32768, 0, rank, 1 + rank), out = take(32768, 0);
    pthread_create(&thread, 0, capture, streams[1]);
    usleep(100000);
    MUST(ncclGroupStart());
    MUST(ncclSend(in, 16384, BF16, 1 - rank, comms[0], streams[0]));
    MUST(ncclRecv(out, 16384, BF16, 1 - rank, comms[0], streams[0]));
    MUST(ncclGroupEnd());
    pthread_join(thread, 0);
    MUST(cuStreamSynchronize(streams[0]));
    expect(out, 32768, 1 - rank, 2 - rank);
    look();
}

/* Messages of the default stream, on one rank from a thread without a context. */
static void without_context(void) {
    u64 in = filled(32768, 0, WEIGHTS, 1 + rank), out = take(32768, 0);
    ptr context, now;
    MUST(cuCtxGetCurrent(&context));
    if (rank == 0) MUST(cuCtxSetCurrent(0));
    MUST(ncclGroupStart());
    MUST(ncclSend(in, 16384, BF16, 1 - rank, comms[0], 0));
    MUST(ncclRecv(out, 16384, BF16, 1 - rank, comms[0], 0));
    MUST(ncclGroupEnd());
    MUST(cuCtxGetCurrent(&now));
    must(now != (rank == 0 ? 0 : context), "the context has changed");
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamSynchronize(0));
    expect(out, 32768, WEIGHTS, 2 - rank);
    look();
}

/* More messages in a group than there is memory for: its end says so, and none of them is sent. */
static void too_many(void) {
    int failed = 0;
    u64 at = filled(32768, 0, WEIGHTS, 1);
    if (rank > 0) return;
    MUST(ncclGroupStart());
    for (int k = 0; k < 9000 && !failed; k++) failed = ncclSend(at, 16384, BF16, 1, comms[0], streams[0]);
    fprintf(stderr, "send returns %d\n", failed);
    fprintf(stderr, "the group returns %d\n", ncclGroupEnd());
}

/* More groups than the library prepares launches for, all of other memory, while another stream waits for what the peer sends at the end. */
static void full(void) {
    enum { VALUES = 8192 };
    u64 last;
    acquaint(1);
    last = take(40, 0);
    if (rank == 0) MUST(ncclRecv(last, 10, INT, 1, comms[1], streams[1]));
    for (int k = 0; k < 1100; k++) move((message){0, 1, BF16, 0, 0, 0, VALUES, {0, 0}, k});
    for (int k = 0; k < 20; k++) {
        MUST(ncclGroupStart());
        for (int n = 0; n < 4; n++) move((message){0, 1, BF16, 0, 0, 0, VALUES << k % 3, {0, 0}, 5000 + 4 * k + n});
        MUST(ncclGroupEnd());
    }
    if (rank == 1) MUST(ncclSend(last, 10, INT, 0, comms[1], streams[1]));
    for (int k = 0; k < 2; k++) MUST(cuStreamSynchronize(streams[k]));
    look();
}

/* Two ranks of one thread, each with a device of its own. */
static void devices(void) {
    enum { VALUES = 16384 };
    static uint8_t right[2 * VALUES];
    ptr before, contexts[2], queues[2], all[2];
    u64 in[2], out[2];
    MUST(cuCtxGetCurrent(&before));
    MUST(ncclCommInitAll(all, 2, 0));
    for (int d = 0; d < 2; d++) {
        MUST(cuDevicePrimaryCtxRetain(&contexts[d], d));
        MUST(cuCtxSetCurrent(contexts[d]));
        MUST(cuStreamCreate(&queues[d], 1));
        MUST(cuMemAlloc_v2(&in[d], sizeof right));
        MUST(cuMemAlloc_v2(&out[d], sizeof right));
        fill(host, sizeof right, d ? NOISE : WEIGHTS, 1 + d);
        MUST(cuMemcpyHtoD_v2(in[d], host, sizeof right));
    }
    MUST(cuCtxSetCurrent(before));
    MUST(ncclGroupStart());
    for (int d = 0; d < 2; d++) {
        MUST(ncclSend(in[d], VALUES, BF16, 1 - d, all[d], queues[d]));
        MUST(ncclRecv(out[d], VALUES, BF16, 1 - d, all[d], queues[d]));
    }
    MUST(ncclGroupEnd());
    for (int d = 0; d < 2; d++) {
        MUST(cuCtxSetCurrent(contexts[d]));
        MUST(cuStreamSynchronize(queues[d]));
        fill(right, sizeof right, d ? WEIGHTS : NOISE, 2 - d);
        MUST(cuMemcpyDtoH_v2(host, out[d], sizeof right));
        must(memcmp(host, right, sizeof right), "bytes of another device");
        MUST(ncclCommDestroy(all[d]));
    }
    MUST(cuCtxSetCurrent(before));
}

/* A communicator that does not block. */
static void nonblocking(id i) {
    struct {
        size_t size;
        unsigned magic, version;
        int blocking, others[15];
    } config = {sizeof config, 0xcafebeef, 23007, 0, {0}};
    int state = 7, result = ncclCommInitRankConfig(&comms[0], ranks, i, rank, &config);
    fprintf(stderr, "rank %d gets %d\n", rank, result);
    while (state == 7) MUST(ncclCommGetAsyncError(comms[0], &state));
    must(state, "a communicator that does not block");
    u64 in = filled(2000, 0, WEIGHTS, rank), out = take(4000, 0);
    ncclAllGather(in, out, 1000, BF16, comms[0], streams[0]);
    for (state = 7; state == 7;) MUST(ncclCommGetAsyncError(comms[0], &state));
    must(state, "a collective that does not block");
    MUST(cuStreamSynchronize(streams[0]));
    for (int r = 0; r < 2; r++) expect(out + 2000 * r, 2000, WEIGHTS, r);
    look();
}

static void meet(const char* file, id* i) {
    char name[512];
    snprintf(name, sizeof name, "%s.part", file);
    if (rank == 0) {
        MUST(ncclGetUniqueId(i));
        FILE* f = fopen(name, "wb");
        fwrite(i, sizeof *i, 1, f);
        fclose(f);
        rename(name, file);
    } else {
        while (access(file, R_OK)) usleep(1000);
        FILE* f = fopen(file, "rb");
        if (fread(i, sizeof *i, 1, f) != 1) must(1, "id");
        fclose(f);
    }
}

int main(int argc, char** argv) {
    if (argc < 7) return 2;
    alarm(300);
    id i;
    ptr context, now;
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    MUST(cuInit(0));
    /* So many KiB of the GPU. */
    if (getenv("EXCHANGE_MEMORY")) fakecuda_set_memory(strtoull(getenv("EXCHANGE_MEMORY"), 0, 10) << 10);
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    for (int k = 0; k < 2; k++) MUST(cuStreamCreate(&streams[k], 1));
    MUST(cuMemAlloc_v2(&memory, MEMORY));
    host = malloc(MEMORY);
    meet(argv[4], &i);
    if (!strcmp(argv[1], "nonblocking")) {
        nonblocking(i);
    } else {
        MUST(ncclCommInitRank(&comms[0], ranks, i, rank));
        MUST(ncclCommSplit(comms[0], 0, rank, &comms[1], 0));
    }
    if (!strcmp(argv[1], "crossed")) crossed();
    else if (!strcmp(argv[1], "captured")) captured();
    else if (!strcmp(argv[1], "aborted")) unanswered(1);
    else if (!strcmp(argv[1], "failed")) unanswered(0);
    else if (!strcmp(argv[1], "beside")) beside_a_capture();
    else if (!strcmp(argv[1], "contextless")) without_context();
    else if (!strcmp(argv[1], "many")) too_many();
    else if (!strcmp(argv[1], "full")) full();
    else if (!strcmp(argv[1], "devices")) devices();
    else if (strcmp(argv[1], "nonblocking")) rounds(strtoull(argv[5], 0, 10), atoi(argv[6]));
    MUST(cuCtxGetCurrent(&now));
    must(now != context, "the context has changed");
    for (int k = 1; k >= 0; k--) {
        if (comms[k]) MUST(ncclCommDestroy(comms[k]));
    }
    printf("%016llx\n", (u64)digest);
    return 0;
}
