// Ranks as processes: a program in C, linked with the libraries by their names, as others are that were written for the real ones.
//
//   ranks groups SEED COUNT   four ranks exchange random groups, and compare what comes
//   ranks hosts               two ranks on one device, first of one host, then of two
//   ranks dies                a rank is killed; the other one's work hangs until it aborts
//   ranks leaves HOW          the first of two ranks ends before the second comes: `exit` or `kill`
//   ranks cleans              makes a unique id
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct ncclComm* ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
enum { ncclUint8 = 1, ncclInt32 = 2, ncclSum = 0, ncclInvalidUsage = 5 };

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(CUcontext* context, int device);
int cuCtxSetCurrent(CUcontext context);
int cuStreamCreate(CUstream* stream, unsigned flags);
int cuStreamSynchronize(CUstream stream);
int cuStreamQuery(CUstream stream);
int cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
int cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
int ncclGetUniqueId(ncclUniqueId* id);
int ncclCommInitRank(ncclComm_t* comm, int count, ncclUniqueId id, int rank);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommAbort(ncclComm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void* send, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);
int ncclRecv(void* receive, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int op, ncclComm_t comm, CUstream stream);

#define OK(call) ok(call, #call, __LINE__)
static void ok(int result, const char* call, int line) {
    if (result == 0) return;
    fprintf(stderr, "line %d: %s returns %d\n", line, call, result);
    exit(1);
}

enum { RANKS = 4, MOST_MESSAGES = 16, ROOM = 4 << 20 };

static uint64_t state;
static unsigned below(unsigned most) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 11) % most;
}

static void fill(unsigned char* bytes, size_t count, int from, int to, int number) {
    unsigned value = (unsigned)(from * 11 + to * 101 + number * 7);
    for (size_t i = 0; i < count; ++i) bytes[i] = (unsigned char)((value += 40503) >> 8);
}

static void* at(CUdeviceptr pointer, size_t offset) {
    return (void*)(uintptr_t)(pointer + offset);
}

static CUstream open_device(int device) {
    CUcontext context;
    CUstream stream;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    return stream;
}

struct Message {
    int from, to, number;
    size_t bytes;
};

static int exchange_groups(int rank, ncclUniqueId id, int groups) {
    CUstream streams[2] = {open_device(rank), open_device(rank)};
    ncclComm_t comm;
    CUdeviceptr sent, got;
    unsigned char *out = malloc(ROOM), *in = malloc(ROOM), *expected = malloc(ROOM);
    OK(ncclCommInitRank(&comm, RANKS, id, rank));
    OK(cuMemAlloc_v2(&sent, ROOM));
    OK(cuMemAlloc_v2(&got, ROOM));
    for (int group = 0; group < groups; ++group) {
        struct Message messages[MOST_MESSAGES];
        const int count = 1 + (int)below(MOST_MESSAGES), sums = below(4) == 0;
        for (int i = 0; i < count; ++i) {
            const unsigned most = below(8) == 0 ? 200000 : below(2) ? 3000 : 3;
            messages[i] = (struct Message){(int)below(RANKS), (int)below(RANKS), group * MOST_MESSAGES + i, below(most)};
        }
        CUstream stream = streams[below(2)];
        size_t out_bytes = 0, in_bytes = 0;
        for (int i = 0; i < count; ++i) {
            const struct Message m = messages[i];
            if (m.from == rank) fill(out + out_bytes, m.bytes, m.from, m.to, m.number), out_bytes += m.bytes;
            if (m.to == rank) fill(expected + in_bytes, m.bytes, m.from, m.to, m.number), in_bytes += m.bytes;
        }
        int sum = group + rank;
        const size_t sum_at = ROOM - sizeof sum;
        OK(cuMemcpyHtoDAsync_v2(sent, out, out_bytes, stream));
        OK(cuMemcpyHtoDAsync_v2(sent + sum_at, &sum, sizeof sum, stream));
        size_t from = 0, to = 0;
        OK(ncclGroupStart());
        for (int i = 0; i < count; ++i) {
            const struct Message m = messages[i];
            if (m.from == rank) OK(ncclSend(at(sent, from), m.bytes, ncclUint8, m.to, comm, stream)), from += m.bytes;
            if (m.to == rank) OK(ncclRecv(at(got, to), m.bytes, ncclUint8, m.from, comm, stream)), to += m.bytes;
        }
        if (sums) OK(ncclAllReduce(at(sent, sum_at), at(got, sum_at), 1, ncclInt32, ncclSum, comm, stream));
        OK(ncclGroupEnd());
        OK(cuMemcpyDtoHAsync_v2(in, got, in_bytes, stream));
        if (sums) OK(cuMemcpyDtoHAsync_v2(&sum, got + sum_at, sizeof sum, stream));
        OK(cuStreamSynchronize(stream));
        if (memcmp(in, expected, in_bytes) != 0 || (sums && sum != RANKS * group + RANKS * (RANKS - 1) / 2)) {
            fprintf(stderr, "rank %d: group %d is wrong\n", rank, group);
            return 1;
        }
    }
    OK(ncclCommDestroy(comm));
    return 0;
}

static int meet(int rank, ncclUniqueId id, int of_two) {
    char name[16];
    ncclComm_t comm;
    snprintf(name, sizeof name, "host %d", of_two ? rank : 0);
    setenv("NCCL_HOSTID", name, 1);
    open_device(0);
    return ncclCommInitRank(&comm, 2, id, rank) == (of_two ? 0 : ncclInvalidUsage) ? 0 : 1;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int survive(int rank, ncclUniqueId id) {
    CUstream stream = open_device(rank);
    ncclComm_t comm;
    CUdeviceptr buffer;
    OK(ncclCommInitRank(&comm, 2, id, rank));
    OK(cuMemAlloc_v2(&buffer, ROOM));
    for (int i = 0; i < 2; ++i) {
        if (rank == 0) OK(ncclSend(at(buffer, 0), i ? ROOM : 1, ncclUint8, 1, comm, stream));
        else if (i == 0) OK(ncclRecv(at(buffer, 0), 1, ncclUint8, 0, comm, stream));
        else kill(getpid(), SIGKILL);
    }
    usleep(200000);
    if (cuStreamQuery(stream) != 600) return 1;
    const double begin = seconds();
    OK(ncclCommAbort(comm));
    OK(cuStreamSynchronize(stream));
    return seconds() - begin < 1 ? 0 : 1;
}

static int leave(ncclUniqueId id, const char* how) {
    ncclComm_t comm;
    open_device(0);
    // The other rank never comes.
    signal(SIGALRM, strcmp(how, "exit") == 0 ? exit : SIG_DFL);
    alarm(1);
    return ncclCommInitRank(&comm, 2, id, 0);
}

int main(int count, char** arguments) {
    const char* mode = count > 1 ? arguments[1] : "";
    const int groups = strcmp(mode, "groups") == 0, dies = strcmp(mode, "dies") == 0;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    if (strcmp(mode, "cleans") == 0) return 0;
    if (strcmp(mode, "leaves") == 0 && count > 2) return leave(id, arguments[2]);
    if (!groups && !dies && strcmp(mode, "hosts") != 0) return 2;
    int failed = 0;
    for (int of_two = groups || dies; of_two < 2; ++of_two) {
        OK(ncclGetUniqueId(&id));
        pid_t children[RANKS];
        const int ranks = groups ? RANKS : 2;
        for (int rank = 0; rank < ranks; ++rank) {
            children[rank] = fork();
            if (children[rank] != 0) continue;
            state = groups && count > 3 ? strtoull(arguments[2], NULL, 10) * 2 + 1 : 1;
            if (groups) exit(exchange_groups(rank, id, count > 3 ? atoi(arguments[3]) : 1));
            exit(dies ? survive(rank, id) : meet(rank, id, of_two));
        }
        for (int rank = 0; rank < ranks; ++rank) {
            int status;
            waitpid(children[rank], &status, 0);
            const int is_victim = dies && rank == 1;
            failed |= is_victim ? !WIFSIGNALED(status) : status != 0;
        }
    }
    return failed;
}
