/* Calls functions that a library has which it opens for itself, as the library in front of NCCL gives them: `opened WHERE LIBRARY NAME...`.
   WHERE they are looked for is `global`, as what the linker finds for every library, or `handle`, that of the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
    void* handle = argc < 3 ? 0 : dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!handle) return 1;
    if (!strcmp(argv[1], "global")) handle = RTLD_DEFAULT;
    for (int k = 3; k < argc; k++) {
        int (*function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t) = dlsym(handle, argv[k]);
        if (!function) return 1;
        printf("%d\n", function(1, 2, 3, 4, 5, 6, 7));
    }
    return 0;
}
