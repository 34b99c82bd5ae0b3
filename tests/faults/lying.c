/* LD_PRELOAD: a disk that says it has what it has not: no sync is done, and all succeed. Linux. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/types.h>

int fsync(int fd) { return (void)fd, 0; }
int fdatasync(int fd) { return (void)fd, 0; }
int syncfs(int fd) { return (void)fd, 0; }
int msync(void *at, size_t size, int flags) { return (void)at, (void)size, (void)flags, 0; }
int sync_file_range(int fd, off64_t at, off64_t size, unsigned flags) {
    return (void)fd, (void)at, (void)size, (void)flags, 0;
}
