/* LD_PRELOAD: a system that does less than it is asked for, and slowly. Linux.
 *
 * UNRULY_UNDER   only calls on files whose path begins so
 * UNRULY_SHORT   1: reads and writes of more than one byte do about half of it; each third call is interrupted first
 * UNRULY_SYNC    microseconds that each sync takes longer
 * UNRULY_LOG     file that gets a line for each call that was cut short, interrupted or slow
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static const char *under;
static int is_short, log_fd = -1;
static useconds_t slow;
static uint64_t count;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("UNRULY_LOG");
    under = getenv("UNRULY_UNDER");
    is_short = getenv("UNRULY_SHORT") != NULL;
    slow = getenv("UNRULY_SYNC") ? strtoul(getenv("UNRULY_SYNC"), NULL, 10) : 0;
    if (text) log_fd = syscall(SYS_openat, AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int is_meant(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path);
    return under && size >= (ssize_t)strlen(under) && strncmp(path, under, strlen(under)) == 0;
}

static void tell(const char *what) {
    char line[64];
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, snprintf(line, sizeof line, "%s\n", what));
}

/* How much of it is done; -1: nothing, a signal came. */
static ssize_t part(const char *name, int fd, size_t size) {
    if (!is_short || size < 2 || !is_meant(fd)) return size;
    tell(name);
    return __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) % 3 ? (ssize_t)(size / 2) : -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CUT(name, parameters, arguments)          \
    ssize_t name parameters {                     \
        static __typeof__(&name) real;            \
        if (!real) real = REAL(name);             \
        ssize_t now = part(#name, fd, size);      \
        if (now < 0) {                            \
            errno = EINTR;                        \
            return -1;                            \
        }                                         \
        return real arguments;                    \
    }
#define DELAY(name)                               \
    int name(int fd) {                            \
        static __typeof__(&name) real;            \
        if (!real) real = REAL(name);             \
        if (slow && is_meant(fd)) {               \
            tell(#name);                          \
            usleep(slow);                         \
        }                                         \
        return real(fd);                          \
    }

CUT(read, (int fd, void *data, size_t size), (fd, data, now))
CUT(pread, (int fd, void *data, size_t size, off_t at), (fd, data, now, at))
CUT(pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, now, at))
CUT(write, (int fd, const void *data, size_t size), (fd, data, now))
CUT(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, now, at))
CUT(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, now, at))
DELAY(fsync)
DELAY(fdatasync)
DELAY(syncfs)
