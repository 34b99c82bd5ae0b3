/* LD_PRELOAD: another wall clock, ahead or behind. All other clocks go on as they do. Linux.
 *
 * WALL_CLOCK_SHIFT  so many seconds
 * WALL_CLOCK_FILE   or as many as this file says, at any moment: eight bytes, as the machine writes them
 * WALL_CLOCK_BOOT   if set, the time since boot is ahead, too, by as many and this: the machine has run for so long
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t fixed;
static int64_t boot_start;
static int with_boot;
static const volatile int64_t *shift = &fixed;

__attribute__((constructor)) static void begin(void) {
    const char *seconds = getenv("WALL_CLOCK_SHIFT"), *file = getenv("WALL_CLOCK_FILE");
    const char *boot = getenv("WALL_CLOCK_BOOT");
    with_boot = boot != NULL;
    boot_start = boot ? atol(boot) : 0;
    fixed = seconds ? atol(seconds) : 0;
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof fixed, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) shift = at;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!result && is_wall) now->tv_sec += *shift;
    if (!result && with_boot && clock == CLOCK_BOOTTIME) now->tv_sec += *shift + boot_start;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (!result) now->tv_sec += *shift;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
