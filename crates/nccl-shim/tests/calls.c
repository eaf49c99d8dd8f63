/* Calls every function that the library in front of NCCL defines, with arguments that are all different.
   `calls COUNT` measures so many calls of ncclAllReduce instead; `calls fork` lets a child make some as well; `calls threads` calls in
   four threads; `calls simulated` and `calls failed` leave groups whose communicators are never made, and take the memory of their handles
   away; `calls progress` makes communicators that do not block. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void* ptr;
typedef struct {
    char bytes[128];
} id;

int ncclAllGather(ptr, ptr, size_t, int, ptr, ptr);
int ncclAllReduce(ptr, ptr, size_t, int, int, ptr, ptr);
int ncclReduceScatter(ptr, ptr, size_t, int, int, ptr, ptr);
int ncclReduce(ptr, ptr, size_t, int, int, int, ptr, ptr);
int ncclBroadcast(ptr, ptr, size_t, int, int, ptr, ptr);
int ncclBcast(ptr, size_t, int, int, ptr, ptr);
int ncclAlltoAll(ptr, ptr, size_t, int, ptr, ptr);
int ncclGather(ptr, ptr, size_t, int, int, ptr, ptr);
int ncclScatter(ptr, ptr, size_t, int, int, ptr, ptr);
int ncclSend(ptr, size_t, int, int, ptr, ptr);
int ncclRecv(ptr, size_t, int, int, ptr, ptr);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(ptr);
int ncclCommInitRank(ptr*, int, id, int);
int ncclCommInitRankConfig(ptr*, int, id, int, ptr);
int ncclCommInitRankScalable(ptr*, int, int, int, id*, ptr);
int ncclCommInitAll(ptr*, int, const int*);
int ncclCommSplit(ptr, int, int, ptr*, ptr);
int ncclCommShrink(ptr, int*, int, ptr*, ptr, int);
int ncclCommGrow(ptr, int, const id*, int, ptr*, ptr);
int ncclCommDestroy(ptr);
int ncclCommAbort(ptr);
int ncclCommGetAsyncError(ptr, int*);
int ncclOfTheFuture(int);

#define P(x) ((ptr)(x))

static void all_of_them(void) {
    id i;
    memset(&i, 7, sizeof i);
    i.bytes[127] = 9;
    ptr comm = 0, others[2] = {0, 0};
    ncclCommInitRank(&comm, 4, i, 1);
    ncclAllGather(P(11), P(12), 1048576, 9, comm, P(13));
    ncclAllReduce(P(21), P(22), 23, 7, 0, comm, P(24));
    ncclReduceScatter(P(31), P(32), 33, 7, 4, comm, P(34));
    ncclReduce(P(41), P(42), 43, 7, 2, 3, comm, P(44));
    ncclBroadcast(P(51), P(52), 53, 9, 2, comm, P(54));
    ncclBcast(P(61), 62, 9, 3, comm, P(63));
    ncclAlltoAll(P(71), P(72), 73, 6, comm, P(74));
    ncclGather(P(81), P(82), 83, 9, 1, comm, P(84));
    ncclScatter(P(91), P(92), 93, 9, 2, comm, P(94));
    ncclGroupStart();
    ncclSend(P(101), 4194304, 1, 2, comm, P(103));
    ncclGroupStart();
    ncclRecv(P(111), 0, 99, 3, comm, P(113));
    ncclGroupEnd();
    ncclCommSplit(comm, 5, 6, others, P(7));
    ncclGroupEnd();
    ncclGroupStart();
    ncclGroupSimulateEnd(P(121));
    ncclCommInitRankConfig(&comm, 4, i, 1, P(8));
    ncclCommInitRankScalable(&comm, 4, 1, 1, &i, P(9));
    ncclCommShrink(comm, P(10), 2, others, P(11), 1);
    ncclCommGrow(comm, 6, &i, 1, others, P(12));
    ncclCommInitAll(others, 1, P(13));
    ncclCommAbort(others[0]);
    ncclCommDestroy(comm);
    printf("%d\n", ncclOfTheFuture(41));
}

static void* many(void* comm) {
    for (int k = 0; k < 1000; k++) ncclAllReduce(P(1), P(2), 3, 7, 0, comm, P(4));
    return 0;
}

/* Groups that make no communicator: later ones must not look where its handle would have been. */
static void unmade(int simulated) {
    id i;
    memset(&i, 7, sizeof i);
    ptr* handle = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ncclGroupStart();
    ncclCommInitRank(handle, 4, i, 1);
    if (simulated) ncclGroupSimulateEnd(0);
    munmap(handle, 4096);
    if (simulated) ncclGroupStart();
    ncclGroupEnd();
}

static void in_progress(void) {
    id i;
    ptr comm = 0;
    memset(&i, 7, sizeof i);
    ncclCommInitRankConfig(&comm, 4, i, 1, P(8));
    ncclCommAbort(comm);
    ncclCommInitRankConfig(&comm, 4, i, 1, P(8));
    int state;
    ncclCommGetAsyncError(comm, &state);
    ncclAllReduce(P(1), P(2), 3, 7, 0, comm, P(4));
    ncclAllReduce(P(1), P(2), 3, 7, 0, comm, P(4));
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "all";
    if (!strcmp(what, "all")) {
        all_of_them();
    } else if (!strcmp(what, "simulated") || !strcmp(what, "failed")) {
        unmade(!strcmp(what, "simulated"));
    } else if (!strcmp(what, "progress")) {
        in_progress();
    } else if (!strcmp(what, "fork")) {
        many(P(1));
        fflush(stdout);
        if (fork() == 0) {
            many(P(1));
            exit(0);
        }
        wait(0);
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (long k = 0; k < 4; k++) pthread_create(&threads[k], 0, many, P(k + 1));
        for (int k = 0; k < 4; k++) pthread_join(threads[k], 0);
    } else {
        struct timespec begin, end;
        long count = atol(what);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (long k = 0; k < count; k++) ncclAllReduce(P(1), P(2), 3, 7, 0, P(5), P(4));
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.0f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
    }
    return 0;
}
