/* Loaded before libc: counts every call that changes a file system, kills the process at a chosen one, lets a "person"
 * act at others, and keeps a journal of what was done. Between two such calls a process changes nothing outside itself
 * (but SQLite's shared index, which is rebuilt), so killing at each of them covers every instant. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int armed, count;
static pid_t owner; /* a child that is about to become another program is not counted */
static int kill_at, tear, ask_fd = -1, answer_fd = -1, journal_fd = -1, moments[8], moments_len;

void crash_arm(int at, int torn, int ask, int answer, int journal, const int *when, int when_len) {
    kill_at = at; tear = torn; ask_fd = ask; answer_fd = answer; journal_fd = journal;
    moments_len = when_len > 8 ? 8 : when_len;
    for (int i = 0; i < moments_len; i++) moments[i] = when[i];
    count = 0;
    owner = syscall(SYS_getpid);
    armed = 1;
}

int crash_disarm(void) { armed = 0; return count; }

void crash_ask(int what) {
    char c = (char)what;
    if (ask_fd < 0) return;
    syscall(SYS_write, ask_fd, &c, 1);
    syscall(SYS_read, answer_fd, &c, 1);
}

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) syscall(SYS_pause);
}

/* 1: this call is the last, and the caller may do a part of it before die(). */
static int step(void) {
    if (!armed || syscall(SYS_getpid) != owner) return 0;
    int n = ++count;
    for (int i = 0; i < moments_len; i++)
        if (moments[i] == n) crash_ask('m');
    return n == kill_at;
}
#define STEP() do { if (step()) die(); } while (0)

static void resolve(int dir, const char *name, char *out) {
    char link[64];
    ssize_t n = 0;
    if (name[0] == '/') { snprintf(out, PATH_MAX, "%s", name); return; }
    if (dir == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    if (n < 0) n = 0;
    snprintf(out + n, PATH_MAX - n, "/%s", name);
}

/* op, inode, offset (of names: which call it was), length of each of three texts, the texts */
static void note(const char *op, unsigned long ino, long long at, const char *a, const char *b, const void *data,
                 size_t len) {
    char head[160];
    if (!armed || journal_fd < 0) return;
    size_t la = a ? strlen(a) : 0, lb = b ? strlen(b) : 0;
    int n = snprintf(head, sizeof head, "%s %lu %lld %zu %zu %zu\n", op, ino, at, la, lb, len);
    struct iovec parts[4] = {{head, n}, {(void *)a, la}, {(void *)b, lb}, {(void *)data, len}};
    syscall(SYS_writev, journal_fd, parts, 4);
}

static unsigned long inode(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) ? st.st_ino : 0;
}

static int opened(int dir, const char *path, int flags, mode_t mode) {
    int changes = flags & (O_CREAT | O_TRUNC);
    int existed = 0;
    if (changes) {
        STEP();
        existed = syscall(SYS_faccessat, dir, path, F_OK) == 0;
    }
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    if (changes && fd >= 0 && journal_fd >= 0) {
        int saved = errno;
        char full[PATH_MAX];
        resolve(dir, path, full);
        if (!existed) note("create", inode(fd), 0, full, 0, 0, 0);
        else if (flags & O_TRUNC) note("trunc", inode(fd), 0, 0, 0, 0, 0);
        errno = saved;
    }
    return fd;
}

#define OPEN(NAME, DIRARG, DIR) \
    int NAME(DIRARG const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        return opened(DIR, path, flags, mode); }
#define NOTHING
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
#define COMMA_DIR int dir,
OPEN(openat, COMMA_DIR, dir)
OPEN(openat64, COMMA_DIR, dir)

ssize_t write(int fd, const void *data, size_t len) {
    int last = step();
    if (last && !tear) die();
    size_t part = last ? len / 2 : len;
    long long at = 0;
    if (journal_fd >= 0 && armed) {
        int saved = errno;
        int appends = syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND;
        at = syscall(SYS_lseek, fd, 0, appends ? SEEK_END : SEEK_CUR);
        errno = saved;
    }
    ssize_t n = syscall(SYS_write, fd, data, part);
    if (n > 0 && inode(fd)) note("write", inode(fd), at, 0, 0, data, n);
    if (last) die();
    return n;
}

static ssize_t pwritten(int fd, const void *data, size_t len, off_t at) {
    int last = step();
    if (last && !tear) die();
    ssize_t n = syscall(SYS_pwrite64, fd, data, last ? len / 2 : len, at);
    if (n > 0) note("write", inode(fd), at, 0, 0, data, n);
    if (last) die();
    return n;
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t at) { return pwritten(fd, data, len, at); }
ssize_t pwrite64(int fd, const void *data, size_t len, off_t at) { return pwritten(fd, data, len, at); }

static int synced(int fd, long call) {
    STEP();
    int r = syscall(call, fd);
    if (r == 0) note(call == SYS_syncfs ? "syncfs" : "sync", inode(fd), 0, 0, 0, 0, 0);
    return r;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int syncfs(int fd) { return synced(fd, SYS_syncfs); }

static int truncated(int fd, off_t size) {
    STEP();
    int r = syscall(SYS_ftruncate, fd, size);
    if (r == 0) note("trunc", inode(fd), size, 0, 0, 0, 0);
    return r;
}
int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off_t size) { return truncated(fd, size); }

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned how) {
    char a[PATH_MAX], b[PATH_MAX];
    STEP();
    if (journal_fd >= 0) { resolve(from_dir, from, a); resolve(to_dir, to, b); }
    int r = syscall(SYS_renameat2, from_dir, from, to_dir, to, how);
    if (r == 0 && journal_fd >= 0) { int e = errno; note(how == 2 ? "exchange" : "rename", 0, count, a, b, 0, 0); errno = e; }
    return r;
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return renameat2(from_dir, from, to_dir, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    char a[PATH_MAX], b[PATH_MAX];
    STEP();
    int r = syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
    if (r == 0 && journal_fd >= 0) { resolve(from_dir, from, a); resolve(to_dir, to, b); note("link", 0, 0, a, b, 0, 0); }
    return r;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dir, const char *path, int flags) {
    char a[PATH_MAX];
    STEP();
    int r = syscall(SYS_unlinkat, dir, path, flags);
    if (r == 0 && journal_fd >= 0) { resolve(dir, path, a); note("unlink", 0, 0, a, 0, 0, 0); }
    return r;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int dir, const char *path, mode_t mode) {
    char a[PATH_MAX];
    STEP();
    int r = syscall(SYS_mkdirat, dir, path, mode);
    if (r == 0 && journal_fd >= 0) { resolve(dir, path, a); note("mkdir", 0, 0, a, 0, 0, 0); }
    return r;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int fchmod(int fd, mode_t mode) { STEP(); return syscall(SYS_fchmod, fd, mode); }
int fchown(int fd, uid_t uid, gid_t gid) { STEP(); return syscall(SYS_fchown, fd, uid, gid); }
int chmod(const char *path, mode_t mode) { STEP(); return syscall(SYS_fchmodat, AT_FDCWD, path, mode); }

/* What a power cut leaves of these is not replayed: their names are then not there. */
int symlinkat(const char *to, int dir, const char *path) { STEP(); return syscall(SYS_symlinkat, to, dir, path); }
int symlink(const char *to, const char *path) { return symlinkat(to, AT_FDCWD, path); }
int bind(int fd, const struct sockaddr *at, socklen_t len) {
    if (at->sa_family == AF_UNIX) STEP();
    return syscall(SYS_bind, fd, at, len);
}
int fchmodat(int dir, const char *path, mode_t mode, int how) { STEP(); return syscall(SYS_fchmodat, dir, path, mode); }
