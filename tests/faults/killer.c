/* LD_PRELOAD: kills the process with SIGKILL before its Nth durable call (write, sync, rename, link, …). Linux.
 *
 * KILLER_AT     which call, counted from 1; 0 or unset: never
 * KILLER_UNDER  count only calls on files whose path begins so
 * KILLER_LOG    file that gets a line for each counted call: its name and the path
 *
 * Each process has its own count. killer_arm() starts it anew, for forks of a process that is warm already.
 * What the library itself does goes straight to the kernel; it allocates nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t count, kill_at;
static const char *under;
static int log_fd = -1;

void killer_arm(uint64_t at, const char *folder, const char *log) {
    kill_at = at;
    count = 0;
    under = folder;
    if (log_fd >= 0) syscall(SYS_close, log_fd);
    log_fd = log ? syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
}

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("KILLER_AT");
    killer_arm(at ? strtoull(at, NULL, 10) : 0, getenv("KILLER_UNDER"), getenv("KILLER_LOG"));
}

/* The path of a descriptor, or of a name relative to one. */
static const char *place(int folder, const char *name, char *out) {
    char link[64];
    if (name && (name[0] == '/' || folder == AT_FDCWD)) return name;
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX);
    if (size < 0) size = 0;
    if (name) snprintf(out + size, PATH_MAX, "/%s", name);
    else out[size] = 0;
    return out;
}

static void note(const char *call, int folder, const char *name) {
    char space[2 * PATH_MAX + 2], line[3 * PATH_MAX];
    const char *path = place(folder, name, space);
    if (under && strncmp(path, under, strlen(under)) != 0) return;
    uint64_t number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (log_fd >= 0) syscall(SYS_write, log_fd, line, snprintf(line, sizeof line, "%s %s\n", call, path));
    if (number == kill_at) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define DURABLE(type, name, parameters, arguments, folder, path) \
    type name parameters {                                       \
        static __typeof__(&name) real;                           \
        if (!real) real = REAL(name);                            \
        note(#name, folder, path);                               \
        return real arguments;                                   \
    }

DURABLE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), fd, NULL)
DURABLE(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), fd, NULL)
DURABLE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), fd, NULL)
DURABLE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), fd, NULL)
DURABLE(int, fsync, (int fd), (fd), fd, NULL)
DURABLE(int, fdatasync, (int fd), (fd), fd, NULL)
DURABLE(int, ftruncate, (int fd, off_t size), (fd, size), fd, NULL)
DURABLE(int, ftruncate64, (int fd, off64_t size), (fd, size), fd, NULL)
DURABLE(int, rename, (const char *from, const char *to), (from, to), AT_FDCWD, to)
DURABLE(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), b, to)
DURABLE(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags), b, to)
DURABLE(int, link, (const char *from, const char *to), (from, to), AT_FDCWD, to)
DURABLE(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), b, to)
DURABLE(int, unlink, (const char *path), (path), AT_FDCWD, path)
DURABLE(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), folder, path)
DURABLE(int, mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
DURABLE(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), folder, path)
DURABLE(int, rmdir, (const char *path), (path), AT_FDCWD, path)
