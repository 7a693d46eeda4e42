/*
 * Preloaded into the broker by the faults judge: makes the n-th system call on the data folder fail.
 *
 * Every call is caught, however it is made (through libc or not): a seccomp filter traps the calls below unless they
 * come from this file's own stub, and the handler of the trap decides. Counted are only calls on files whose path lies
 * in the data folder. Linux on x86-64.
 *
 *   FAULT_FOLDER  the data folder
 *   FAULT_STATE   a file of 4 KiB into which `struct state` is mapped: it is read after the process was killed
 *   FAULT_AT      which of the calls that it can happen to fails, counted from 1; 0: none
 *   FAULT_KIND    eio, enospc, eintr, or short (half of a read or write)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, ALLOCATE, STAT, KINDS };

struct state {
    /* Calls on the data folder, and those of them that the fault can happen to. */
    uint64_t all, fitting;
    /* 1 once the fault has happened, and to which kind of call. */
    uint64_t fired, fired_kind;
    uint64_t of[KINDS];
};

#define FDS 65536
static uint8_t ours[FDS];
static struct state *state;
static char folder[4096];
static size_t folder_len;
static uint64_t fault_at;
static int fault_errno; /* 0: short */

extern long stub(long nr, long a, long b, long c, long d, long e, long f);
extern char stub_end[];
__asm__(".text\n"
        "stub: mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n"
        "mov 8(%rsp),%r9\n syscall\n"
        "stub_end: ret\n");

static const struct { int nr; enum kind kind; int fd; } CALLS[] = {
    /* fd: which argument holds the file; -1: a path, in the argument given by path_of */
    { SYS_openat, OPEN, -1 }, { SYS_open, OPEN, -1 }, { SYS_mkdir, OPEN, -1 }, { SYS_rename, RENAME, -1 },
    { SYS_renameat, RENAME, -1 }, { SYS_renameat2, RENAME, -1 }, { SYS_unlink, UNLINK, -1 },
    { SYS_unlinkat, UNLINK, -1 }, { SYS_read, READ, 0 }, { SYS_pread64, READ, 0 }, { SYS_preadv, READ, 0 },
    { SYS_preadv2, READ, 0 }, { SYS_sendfile, READ, 1 }, { SYS_copy_file_range, READ, 0 }, { SYS_write, WRITE, 0 },
    { SYS_pwrite64, WRITE, 0 }, { SYS_pwritev, WRITE, 0 }, { SYS_pwritev2, WRITE, 0 }, { SYS_fdatasync, SYNC, 0 },
    { SYS_fsync, SYNC, 0 }, { SYS_sync_file_range, SYNC, 0 }, { SYS_ftruncate, TRUNCATE, 0 },
    { SYS_fallocate, ALLOCATE, 0 }, { SYS_statx, STAT, -1 }, { SYS_fstat, STAT, 0 }, { SYS_close, KINDS, 0 },
};
#define CALLS_COUNT (sizeof CALLS / sizeof *CALLS)

static int path_of(int nr) {
    return nr == SYS_openat || nr == SYS_renameat || nr == SYS_renameat2 || nr == SYS_unlinkat || nr == SYS_statx;
}

static int inside(const char *path) {
    return path && strncmp(path, folder, folder_len) == 0;
}

/* Whether the fault can happen to such a call on a real system; a file's own errors only. */
static int fits(int nr, enum kind kind) {
    switch (fault_errno) {
    case 0: return (kind == READ || kind == WRITE) && nr != SYS_sendfile;
    case EINTR: return kind == OPEN || kind == READ || kind == WRITE || kind == TRUNCATE || kind == ALLOCATE;
    case ENOSPC: return kind != READ && kind != STAT && kind != UNLINK;
    default: return 1;
    }
}

static long halved(int nr, long *arg) {
    if (nr == SYS_pwrite64 || nr == SYS_pread64 || nr == SYS_write || nr == SYS_read) {
        long half = arg[2] > 1 ? arg[2] / 2 : arg[2];
        return stub(nr, arg[0], arg[1], half, arg[3], 0, 0);
    }
    /* vectored: the first vector only, halved */
    struct { char *base; size_t len; } one = *(typeof(one) *)arg[1];
    one.len = one.len > 1 ? one.len / 2 : one.len;
    return stub(nr, arg[0], (long)&one, 1, arg[3], arg[4], arg[5]);
}

static long decide(int nr, long *arg) {
    size_t at = 0;
    while (at + 1 < CALLS_COUNT && CALLS[at].nr != nr) at++;
    enum kind kind = CALLS[at].kind;
    int fd = CALLS[at].fd < 0 ? -1 : (int)arg[CALLS[at].fd];
    const char *path = CALLS[at].fd < 0 ? (const char *)arg[path_of(nr)] : NULL;
    int is_ours = fd >= 0 && fd < FDS ? ours[fd] : inside(path);
    /* statx of an open file names it by number */
    if (nr == SYS_statx && (!path || !*path) && arg[0] >= 0 && arg[0] < FDS) is_ours = ours[arg[0]];
    if (is_ours && kind != KINDS) {
        __atomic_add_fetch(&state->all, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&state->of[kind], 1, __ATOMIC_SEQ_CST);
        if (fits(nr, kind) && __atomic_add_fetch(&state->fitting, 1, __ATOMIC_SEQ_CST) == fault_at) {
            state->fired_kind = kind;
            state->fired = 1;
            return fault_errno ? -fault_errno : halved(nr, arg);
        }
    }
    long result = stub(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
    if ((nr == SYS_openat || nr == SYS_open) && result >= 0 && result < FDS) ours[result] = (uint8_t)is_ours;
    if (nr == SYS_close && fd >= 0 && fd < FDS && result == 0) ours[fd] = 0;
    return result;
}

static void trapped(int number, siginfo_t *info, void *context) {
    (void)number;
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    long arg[6] = { reg[REG_RDI], reg[REG_RSI], reg[REG_RDX], reg[REG_R10], reg[REG_R8], reg[REG_R9] };
    reg[REG_RAX] = decide(info->si_syscall, arg);
}

static void filter(void) {
    struct sock_filter code[8 + 2 * CALLS_COUNT];
    size_t at = 0;
    uint64_t from = (uint64_t)stub_end;
#define LOAD(field) (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
    code[at++] = LOAD(nr);
    for (size_t n = 0; n < CALLS_COUNT; n++) {
        /* to the check of the stub, which begins behind the last of these and one ALLOW */
        uint8_t ahead = (uint8_t)(CALLS_COUNT - n);
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)CALLS[n].nr, ahead, 0);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[at++] = LOAD(instruction_pointer);
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)from, 0, 3);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                              offsetof(struct seccomp_data, instruction_pointer) + 4);
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(from >> 32), 0, 1);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = { (unsigned short)at, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(99);
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("FAULT_FOLDER"), *file = getenv("FAULT_STATE"), *at = getenv("FAULT_AT");
    const char *kind = getenv("FAULT_KIND");
    if (!where || !file || !at || !kind) return;
    strncpy(folder, where, sizeof folder - 1);
    folder_len = strlen(folder);
    fault_at = strtoull(at, NULL, 10);
    fault_errno = !strcmp(kind, "eio") ? EIO : !strcmp(kind, "enospc") ? ENOSPC : !strcmp(kind, "eintr") ? EINTR : 0;
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) _exit(98);
    state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state == MAP_FAILED) _exit(97);
    close(fd);
    struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
    if (sigaction(SIGSYS, &action, NULL)) _exit(96);
    filter();
}
