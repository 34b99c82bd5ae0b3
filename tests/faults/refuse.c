/* LD_PRELOAD: a disk that refuses some of what it is asked for. Linux.
 *
 * REFUSE        full: a write fails with ENOSPC; sync: a sync fails with EIO
 * REFUSE_EACH   one of so many, the last of them
 * REFUSE_UNDER  only on files whose path begins so
 * REFUSE_LOG    file that gets a line for each refusal: the call and the path
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

static uint64_t count, each = 2;
static const char *kind = "", *under = "";
static int log_fd = -1;

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("REFUSE_LOG");
    if (getenv("REFUSE")) kind = getenv("REFUSE");
    if (getenv("REFUSE_UNDER")) under = getenv("REFUSE_UNDER");
    if (getenv("REFUSE_EACH")) each = strtoull(getenv("REFUSE_EACH"), NULL, 10);
    if (log) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int is_refused(const char *which, const char *call, int fd) {
    char link[64], path[PATH_MAX + 1], line[PATH_MAX + 64];
    if (strcmp(kind, which) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX);
    path[size < 0 ? 0 : size] = 0;
    if (strncmp(path, under, strlen(under)) != 0) return 0;
    if (__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) % each) return 0;
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, snprintf(line, sizeof line, "%s %s\n", call, path));
    return 1;
}

#define REFUSED(type, name, parameters, arguments, which, error) \
    type name parameters { \
        static type (*real) parameters; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        if (is_refused(which, #name, fd)) { \
            errno = error; \
            return -1; \
        } \
        return real arguments; \
    }

REFUSED(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), "full", ENOSPC)
REFUSED(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), "full", ENOSPC)
REFUSED(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), "full", ENOSPC)
REFUSED(int, fsync, (int fd), (fd), "sync", EIO)
REFUSED(int, fdatasync, (int fd), (fd), "sync", EIO)
