/* Calls functions that a library has which it opens for itself, as the library in front of NCCL gives them: `opened LIBRARY NAME...`. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

int main(int argc, char** argv) {
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) return 1;
    for (int k = 2; k < argc; k++) {
        int (*function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t) = dlsym(RTLD_DEFAULT, argv[k]);
        if (!function) return 1;
        printf("%d\n", function(1, 2, 3, 4, 5, 6, 7));
    }
    return 0;
}
