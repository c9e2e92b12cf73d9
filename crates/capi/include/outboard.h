/*
 * outboard.h: TCP connections by completions, the same on an outboard engine and on the kernel.
 *
 * Calls return 0, a count, or a negative error number of <errno.h>; errno itself is not touched.
 * A pointer that must not be NULL and is gives -EINVAL, a handle that is closed -EBADF.
 *
 * Threads: each call says what holds for it. Calls that take a context may be made from any thread at any time. A
 * queue, and all that was made in it, belongs to one thread at a time; a call that finds another under way in
 * the same queue, a wait included, returns -EBUSY. Only ob_wake and ob_queue_fd may be called at any time.
 * Registered memory and files may be used from any thread, and in several queues at once. What frees something
 * (ob_detach, ob_queue_free, ob_unregister, ob_unregister_file) comes when no other call will begin that names
 * it. Nothing here may be called from a signal handler.
 *
 * Forks: the child must not use what its parent made, and makes a context of its own. It may free its parent's
 * queues (ob_queue_free), and then the context (ob_detach), if no call of another thread was under way at the fork in
 * any queue of that context, or with it; otherwise what is freed may be locked for ever. That ends nothing of its
 * parent's. Before it has, or has become another program, what its parent has at the kernel is open in the child, too:
 * a connection that the parent closes does not end, and the port of a listener stays taken.
 */
#ifndef OUTBOARD_H
#define OUTBOARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. A library with the same first number has all of it. */
#define OB_VERSION_MAJOR 0
#define OB_VERSION_MINOR 1

/* The relation of the program to an engine, or to the kernel alone. */
typedef struct ob_context ob_context;
/* Connections, listeners and descriptors, and what has happened to them. */
typedef struct ob_queue ob_queue;
/* Registered memory. */
typedef struct ob_memory ob_memory;
/* A registered file. */
typedef struct ob_file ob_file;
/* A connection, a listener or a watched descriptor of one queue. 0 is none. A handle that was
 * closed is never given again, and one of another queue is -EBADF (of 4,096 queues in turn). */
typedef uint64_t ob_handle;

/* Where connections may be: an argument of ob_attach. */
enum ob_mode {
    OB_ANY = 0,    /* the engine where it can be, otherwise the kernel */
    OB_ENGINE = 1, /* the engine alone: without one ob_attach fails, what the kernel would have to open is
                      -EOPNOTSUPP, and what comes to a listener by the kernel is reset: clients on this
                      machine, and all while the engine is away. The engine takes the rest whatever its
                      configuration says of placement (from protocol 14 on: ob_ctl) */
    OB_KERNEL = 2, /* the kernel, whatever engine there is */

    /* How sockets of the kernel's are served: one of these may be added to the mode. Otherwise it is as the
       environment variable OUTBOARD_KERNEL_SOCKETS says, epoll or io_uring, or by io_uring where it is there and
       pays. All are waited for by epoll; see ob_send for what io_uring sends together */
    OB_BY_EPOLL = 0x10,   /* by epoll alone: no send waits for another */
    OB_BY_IO_URING = 0x20 /* by io_uring from the first send on: without it ob_attach fails */
};

/* What an event tells. */
enum ob_kind {
    OB_ACCEPT = 1,  /* a listener has a further connection: ob_accept until -EAGAIN */
    OB_OPEN = 2,    /* a connection that was being opened is there, or error says why not */
    OB_RECEIVE = 3, /* data has come, bytes of it unread, or the stream's end: receive until
                       -EAGAIN or 0 */
    OB_ROOM = 4,    /* there is room again after a send that returned -EAGAIN */
    OB_SENT = 5,    /* a send of bytes with this cookie was acknowledged by the peer, or has left
                       (OB_LEFT); with error: the connection ended before that was known */
    OB_END = 6,     /* both directions have ended, by agreement or by error; what came before can
                       still be received; close it */
    OB_READY = 7,   /* a watched descriptor is ready; bytes are the bits of epoll */
    OB_WAKE = 8,    /* ob_wake was called */
    OB_PLACED = 9,  /* the posted buffer with this cookie holds bytes by now, from its front; what
                       follows is not the program's yet */
    OB_FILLED = 10, /* the posted buffer with this cookie is the program's again, with bytes in it: it is
                       full, or the stream has ended, or error says why nothing more comes */
    OB_FREE = 11    /* nothing names the registered memory any more that ob_tell_when_free was asked about
                       with this cookie */
};

/* One event: 32 bytes on every machine. */
typedef struct ob_event {
    uint32_t kind;    /* enum ob_kind */
    int32_t error;    /* a positive error number, or 0 */
    ob_handle handle; /* to whom it happened; 0 for OB_FREE */
    uint64_t cookie;  /* the send's for OB_SENT, the buffer's for OB_PLACED and OB_FILLED, the memory's for
                         OB_FREE, otherwise the handle's */
    uint64_t bytes;   /* as the kind says */
} ob_event;

/* Options of connections and listeners, in the units of the kernel's: see tcp(7) and socket(7). */
enum ob_option {
    OB_NODELAY = 1,        /* TCP_NODELAY, 0 or 1 */
    OB_CORK = 2,           /* TCP_CORK, 0 or 1 */
    OB_QUICKACK = 3,       /* TCP_QUICKACK, 0 or 1 */
    OB_KEEPALIVE = 4,      /* SO_KEEPALIVE, 0 or 1 */
    OB_KEEPIDLE = 5,       /* TCP_KEEPIDLE, seconds */
    OB_KEEPINTVL = 6,      /* TCP_KEEPINTVL, seconds */
    OB_KEEPCNT = 7,        /* TCP_KEEPCNT, probes */
    OB_USER_TIMEOUT = 8,   /* TCP_USER_TIMEOUT, milliseconds, 0 for the default */
    OB_SEND_BUFFER = 9,    /* bytes that may be sent and not acknowledged */
    OB_RECEIVE_BUFFER = 10, /* bytes that may arrive and not be received: how far the engine receives
                               ahead, and where it stops; at most an eighth more, for what the peer's
                               view of the window cannot express. If it is not set it follows the path */
    OB_RESET_ON_CLOSE = 11, /* SO_LINGER without time, 0 or 1 */
    OB_EAGER_ACCEPT = 12,  /* of a listener: connections that the engine may hand over before one of
                              them is accepted, from 1 to the backlog. Those cost no question when they
                              are accepted; no other process has them meanwhile. For the kernel it is
                              the backlog alone */
    OB_RECEIVE_UNIT = 13   /* OB_PLACED tells when so many bytes more have come. 0, the default, follows the
                              load: what has come between two looks is told at once */
};

/* An option and its value, for ob_connect and ob_accept_with. */
typedef struct ob_setting {
    uint32_t option; /* enum ob_option */
    uint32_t value;
} ob_setting;

/* How many connections there may be, and how often a new one. 0 is no limit. */
typedef struct ob_limit {
    uint32_t per_second; /* new connections a second, in the long run */
    uint32_t burst;      /* new connections at once, after a pause; 0: as many as in a second */
    uint32_t in_flight;  /* connections at one time */
} ob_limit;

/* Who may connect to a listener. */
typedef struct ob_admission {
    ob_limit all;      /* for all prefixes together */
    ob_limit each;     /* for each prefix of addresses */
    uint8_t bits_v4;   /* bits of an IPv4 address that make a prefix; 0: 32 */
    uint8_t bits_v6;   /* bits of an IPv6 address that make a prefix; 0: 64 */
    uint8_t reset;     /* 1: who is refused is told by RST; 0: he hears nothing, and tries again */
    uint8_t unused[5]; /* 0 */
} ob_admission;

/* Who was admitted and refused, at the engine and by the library together. The engine counts a connection
 * when its handshake is complete, and each SYN that it refused; the library counts what the kernel accepted
 * when the program accepts, or is refused. All but in_flight are since ob_listen, whatever the policy. */
typedef struct ob_admitted {
    uint32_t by_engine;         /* 1: the engine keeps to the policy; 0: the library does */
    uint32_t unused;
    uint64_t accepts;           /* connections made */
    uint64_t in_flight;         /* of those made since the policy was set the ones that count now; 0 without */
    uint64_t refused_by_rate;   /* because new ones came too fast */
    uint64_t refused_by_count;  /* because there were as many as there may be */
    uint64_t refused_by_prefix; /* for either reason of their prefix */
} ob_admitted;

/* Flags of sends and receives. */
enum ob_flags {
    OB_MORE = 1,  /* more follows at once: a last segment that is not full may wait */
    OB_PEEK = 2,  /* what is received stays to be received again */
    OB_ASYNC = 4, /* the send comes back as OB_SENT with its cookie, when the peer has acknowledged it */
    OB_LEFT = 8   /* with OB_ASYNC: it comes back when all of it has left, once. It may have to leave again,
                     so that memory which it names may not change yet: ob_tell_when_free */
};

/* What is known of a connection. Of the kernel's the TCP's own facts are 0: ask TCP_INFO there. Of a listener
 * only offloaded and why_not are known. */
typedef struct ob_info {
    uint32_t offloaded;       /* 1: the engine has it, or listens there besides the kernel; 0: the kernel */
    uint32_t rtt_us;          /* smoothed round-trip time in microseconds */
    uint32_t rttvar_us;       /* its variation in microseconds */
    uint32_t rto_us;          /* retransmission timeout in microseconds */
    uint32_t cwnd;            /* congestion window in bytes */
    uint32_t send_mss;        /* largest segment that is sent, in bytes */
    uint64_t unacknowledged;  /* bytes sent and not known to be acknowledged */
    uint64_t unread;          /* bytes that wait to be received */
    uint64_t bytes_acked;     /* all bytes that the peer has acknowledged */
    uint64_t bytes_received;  /* all bytes received in order */
    uint64_t retransmits;     /* all segments sent again */
    char why_not[96];         /* why the kernel has it, in words */
    char served_by[24];       /* what serves it: "engine", "kernel, epoll" or "kernel, io_uring" */
} ob_info;

/* What is known of the engine. */
typedef struct ob_engine {
    uint32_t attached;         /* 1: there is one; otherwise the rest is 0 */
    uint32_t protocol;         /* the version of the protocol that is spoken with it */
    uint32_t interface;        /* the index of the first interface that it works on */
    uint32_t mtu;              /* bytes of the largest packet that goes by each of them */
    uint32_t local;            /* 1: it may have connections within this machine */
    uint32_t accept_backlog;   /* connections of one listener that may wait to be accepted */
    uint64_t connections;      /* how many it has, of all programs */
    uint64_t most_connections; /* how many it may have */
    uint64_t send_area;        /* bytes of this program's send area, part of which is registered memory */
    uint64_t send_free;        /* how many of them nobody uses */
    uint64_t receive_area;     /* bytes of this program's receive area */
    char name[32];             /* its name */
    char congestion[16];       /* congestion control: reno, cubic or bbr */
} ob_engine;

/* What is known of the first machine on a way. */
enum ob_neighbour {
    OB_NEIGHBOUR_UNKNOWN = 0,   /* it is being asked for, or has not been */
    OB_NEIGHBOUR_REACHABLE = 1, /* it answers */
    OB_NEIGHBOUR_STALE = 2,     /* it has not been heard from for a while */
    OB_NEIGHBOUR_FAILED = 3     /* it was asked for, and nobody answered */
};

/* The way to a destination. */
typedef struct ob_way {
    struct sockaddr_storage next_hop; /* the first machine on it; the port is 0 */
    struct sockaddr_storage source;   /* the address that connections come from; the port is 0 */
    uint32_t state;                   /* enum ob_neighbour */
    uint32_t mtu;                     /* bytes of the largest packet */
    uint8_t hardware[8];              /* its hardware address, 6 bytes; 0 if that is not known */
} ob_way;

/* A stretch of registered memory that is sent. */
typedef struct ob_piece {
    const ob_memory *memory;
    size_t offset; /* where it begins there */
    size_t len;
} ob_piece;

/* What a view or a room shows. */
typedef struct ob_span {
    void *data;
    size_t len;
    uint64_t id; /* for ob_release, ob_commit and ob_abandon */
} ob_span;

/* --- life ------------------------------------------------------------------------------------ */

/* Attaches to the engine called `engine` (NULL: "default"), or to that which the environment
 * variable OUTBOARD_SOCKET names; `program` is shown to people (NULL: none). With OB_ANY an engine
 * that is away is found when it comes.
 * -ENOENT, -ECONNREFUSED: there is no engine (OB_ENGINE only). -EACCES: it is not for this user.
 * -EINVAL: there is no such mode, or io_uring is older than that of Linux 5.18 (OB_BY_IO_URING only). -ENOSYS, -EPERM:
 * it is not there, or not for this process (OB_BY_IO_URING only).
 * -EPROTONOSUPPORT: the two speak no version of the protocol in common. -ETIMEDOUT: it is there and has not answered
 * for 10 seconds, as when it is stopped by a signal; an OB_ANY context has waited as long. ob_listen, and what asks
 * the engine later, waits half a second for one that does not run, and ob_poll not at all.
 * Threads: any, at any time. */
int ob_attach(ob_context **out, const char *engine, const char *program, int mode);

/* Ends the relation. Queues and memory made with it stay usable until they are freed themselves.
 * Threads: any, once no call of another names the context. */
void ob_detach(ob_context *context);

/* 1 if an engine is attached now, otherwise 0.
 * Threads: any, several at once in a context. */
int ob_is_attached(const ob_context *context);

/* Why no engine is attached: 0 if one is. -EOPNOTSUPP: the context is OB_KERNEL. -ENOTCONN: it has gone.
 * Otherwise why it did not take the program, as ob_attach says.
 * Threads: any, several at once in a context. */
int ob_why_detached(const ob_context *context);

/* Whether a connection to this address would be the engine's: 1, or 0 with the reason in `why`
 * (`size` bytes with the final 0; may be NULL). Whether the engine listens for a listener, and why not, ob_get_info
 * says.
 * -ENETUNREACH, -EHOSTUNREACH, -EACCES, -EINVAL: there is no way, or a route that forbids it.
 * Threads: any, several at once in a context. */
int ob_can_offload(const ob_context *context, const struct sockaddr *address, socklen_t len,
                   char *why, size_t size);

/* What is known of the engine. It asks, which takes some microseconds. Without an engine, and with
 * OB_KERNEL, all is 0. -ETIMEDOUT: it has not answered for half a second.
 * Threads: any, several at once in a context. */
int ob_ctl(const ob_context *context, ob_engine *out);

/* The way to an address, as the engine knows it. -ENOTCONN: there is no engine. -EOPNOTSUPP: it is not the
 * engine's way, or the engine is of an earlier version. -ENETUNREACH, -EHOSTUNREACH, -EACCES,
 * -EINVAL: there is no way, or a route that forbids it.
 * -ETIMEDOUT: the engine has not answered for half a second.
 * Threads: any, several at once in a context. */
int ob_neigh(const ob_context *context, const struct sockaddr *address, socklen_t len, ob_way *out);

/* Doubts a way: as ob_neigh, for a program that has a reason, such as requests that nobody answers. The
 * kernel is asked to look at it again, and what it finds holds for all. -EAGAIN: too much is doubted by
 * all programs together. Errors as for ob_neigh.
 * Threads: any, several at once in a context. */
int ob_neigh_update(const ob_context *context, const struct sockaddr *address, socklen_t len,
                    ob_way *out);

/* A queue without anything in it. -EMFILE, -ENFILE: there are no more descriptors. -ENOSYS, -EPERM: io_uring is not
 * there any more for this process (OB_BY_IO_URING only).
 * Threads: any, several at once in a context. */
int ob_queue_new(const ob_context *context, ob_queue **out);

/* Closes all that a queue has, and frees it. NULL is nothing. For what was committed (ob_commit) and the kernel
 * has not taken yet it waits up to a second; connections whose peers have made no room by then are reset, so
 * that no stream ends as if it were whole. In the child of a fork it closes what the child has of its parent's, and
 * nothing else.
 * Threads: any, once no call of another names the queue, ob_wake included. */
void ob_queue_free(ob_queue *queue);

/* Listens on an address with room for `backlog` connections that were not accepted; SO_REUSEADDR is
 * set. What the engine refuses, such as an address of another interface, the kernel serves alone: ob_get_info says
 * why; of an OB_ENGINE context the engine's refusal is an error.
 * -EADDRINUSE, -EADDRNOTAVAIL, -EACCES: as of bind(2). Otherwise errors of listen(2).
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_listen(ob_queue *queue, const struct sockaddr *address, socklen_t len, unsigned backlog,
              uint64_t cookie, ob_handle *out);

/* The next connection of a listener, open, with the listener's options. OB_ACCEPT tells once of what has
 * come: accept until -EAGAIN. -EAGAIN: there is none. -EMFILE, -ENFILE: the connection is the kernel's, and
 * there is no descriptor for it; it stays in the queue, and OB_ACCEPT does not tell of it again: accept
 * again when a descriptor has become free.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_accept(ob_queue *queue, ob_handle listener, uint64_t cookie, ob_handle *out);

/* Accepts and sets up in the same step: as ob_accept, with `count` settings of the connection's own and,
 * unless `first` is NULL, with a view of the first data, at most `limit` bytes, whose length is 0 if none
 * has come yet. Errors as for ob_accept. -EINVAL: a setting cannot be, and nothing was accepted.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_accept_with(ob_queue *queue, ob_handle listener, const ob_setting *settings, size_t count,
                   uint64_t cookie, ob_handle *out, size_t limit, ob_span *first);

/* From now on a listener admits whom `policy` says; NULL: everybody. The engine keeps to it before there is
 * a connection: it refuses the SYN. Forged SYNs use up nobody's share, since only what is completed is
 * charged. What the kernel accepts the library keeps to: it resets what is too much when the program
 * accepts. For that what was accepted there of the engine's counts, too; but the engine knows nothing of the
 * kernel's, so that of both together there may be more, by as many as are the kernel's. Connections count
 * at the engine until both directions have ended, at the library until they are closed; what is there
 * already does not count. Prefixes are counted in a table of fixed size, so that two may share what one may
 * have. Of the processes that accept from one listener the last word counts. A policy without limits is none.
 * -EINVAL: `unused` is not 0, or `reset` neither 0 nor 1.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_set_admission(ob_queue *queue, ob_handle listener, const ob_admission *policy);

/* Who was admitted and refused by a listener. It may ask the engine, which takes some microseconds.
 * -ETIMEDOUT: the engine has not answered for half a second, so that what it has counted is not known.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_get_admitted(ob_queue *queue, ob_handle listener, ob_admitted *out);

/* Begins to open a connection with `count` settings; OB_OPEN tells how it went. Errors are what is
 * known at once. -EOPNOTSUPP: it is the kernel's to open, and the context is OB_ENGINE.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_connect(ob_queue *queue, const struct sockaddr *address, socklen_t len,
               const ob_setting *settings, size_t count, uint64_t cookie, ob_handle *out);

/* Begins to open a connection from an address: as ob_connect; with port 0 from any port.
 * -EADDRINUSE, -EADDRNOTAVAIL: as of bind(2).
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_connect_from(ob_queue *queue, const struct sockaddr *local, socklen_t local_len,
                    const struct sockaddr *remote, socklen_t len, const ob_setting *settings,
                    size_t count, uint64_t cookie, ob_handle *out);

/* Ends directions as shutdown(2): SHUT_RD, SHUT_WR or SHUT_RDWR. -EINVAL: it is none of them. -ENOTCONN: it is over, or not
 * open. -EAGAIN: what was committed before has not left yet; OB_ROOM says when it has.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_shutdown(ob_queue *queue, ob_handle handle, int how);

/* Closes a connection, a listener or a watch. What was sent is still delivered; what was committed and the
 * kernel has not taken yet leaves in later calls of ob_wait or ob_poll, at the latest in ob_queue_free (a
 * process that ends before resets the connection, and so does a peer that takes nothing for a minute, or as
 * long as OB_USER_TIMEOUT says). Asynchronous sends do not come back any more, and the
 * connection's views and rooms are void. No later ob_wait or ob_poll
 * gives an event of it; the events that the last one gave may have some left, so what their cookies point to
 * is freed when all of those have been looked at. -EBADF: it is closed already.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_close(ob_queue *queue, ob_handle handle);

/* --- options and facts ----------------------------------------------------------------------- */

/* Sets an option of a connection, or of a listener for what it accepts from then on. -EINVAL: there
 * is no such option, or the value cannot be.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_set(ob_queue *queue, ob_handle handle, uint32_t option, uint32_t value);

/* What is known of a connection or a listener. Of a connection it may ask the engine, which takes some
 * microseconds. -ETIMEDOUT: the engine has not answered for half a second.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_get_info(ob_queue *queue, ob_handle handle, ob_info *out);

/* This end's and the other end's address, as getsockname(2) and getpeername(2) give them. -ENOTCONN: there is no
 * other end.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_local(ob_queue *queue, ob_handle handle, struct sockaddr *address, socklen_t *len);
int ob_peer(ob_queue *queue, ob_handle handle, struct sockaddr *address, socklen_t *len);

/* --- registered memory ----------------------------------------------------------------------- */

/* Registers `len` bytes of new memory: sends from it are not copied at the host. The engine's if
 * there is one, otherwise the program's own.
 * Its pages come when they are first written or sent; a program that wants none to come late writes all of it before
 * it serves.
 * -EINVAL: `len` is 0. -ENOBUFS: there is no free piece of that length.
 * Threads: any, several at once in a context. */
int ob_register(const ob_context *context, size_t len, ob_memory **out);

/* Registers `len` bytes of a memory file of the program's own (memfd_create(2)), from `offset` on, for all calls
 * that take registered memory. The library maps them, and the descriptor may be closed afterwards. The engine
 * opens the file once more for itself, and reads it when bytes of it leave, and again if they have to leave
 * again; so it takes a file that it may read. From what it does not take the library copies. The engine never
 * writes to it: what comes into posted buffers the library copies there, which is what memory by ob_register
 * spares. It takes some microseconds. The same file may
 * be registered in several parts. The file is to be sealed against shrinking (F_SEAL_SHRINK), so that no part of
 * it can go.
 * -EINVAL: it is no memory file, or one of huge pages; `len` is 0, or it is not all inside the file. -EPERM: it is
 * not sealed against shrinking, or it is against writing. -EACCES: it is not open for reading and writing.
 * Otherwise errors of mmap(2).
 * Threads: any, several at once in a context. */
int ob_register_memfd(const ob_context *context, int fd, uint64_t offset, size_t len, ob_memory **out);

/* Where registered memory is, and how long.
 * Threads: any, several at once, until ob_unregister is called. */
void *ob_memory_data(const ob_memory *memory);
size_t ob_memory_len(const ob_memory *memory);

/* Tells when registered memory is free: by OB_FREE, once and in this queue, when nothing names it any more, be it in
 * this queue or in another: every send from it has come back, and what the engine reads there the peer has
 * acknowledged; no buffer of it is posted, nor is one of a connection that was closed still the engine's. Then
 * ob_unregister does not refuse it, or the program writes there anew. It is told at once if that is so already, and
 * otherwise while the queue is waited in or polled, at most 50 ms later than it is so. Until then the memory may be
 * used, and is waited for anew; if it is given back first, OB_FREE tells of that.
 * -EINVAL: one of them is NULL.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_tell_when_free(ob_queue *queue, const ob_memory *memory, uint64_t cookie);

/* Gives registered memory back; no call that names it may begin afterwards. It never waits: ob_tell_when_free tells
 * when it will do. -EBUSY: a send that names it has not come back, a buffer of it is posted, or a call that names it
 * is under way in another thread; nothing changes.
 * Threads: any, but one alone gives it back; -EBUSY while a call of another is under way with it. */
int ob_unregister(ob_memory *memory);

/* --- registered files ------------------------------------------------------------------------ */

/* Registers a regular file, open for reading, to send from; the descriptor may be closed afterwards. The
 * engine opens it once more for itself: so it takes a file that it may read, too, and that is on a disk of
 * this machine (not on a network or on FUSE). What it does not take the library reads, and the kernel's
 * connections send it by sendfile(2). It takes some microseconds the first time. A file
 * may be sent from in several queues at once.
 * -EINVAL: it is no regular file. -EMFILE, -ENFILE: there are no more descriptors.
 * Threads: any, several at once in a context. */
int ob_register_file(const ob_context *context, int fd, ob_file **out);

/* Whether the engine reads a registered file: 1, or 0.
 * Threads: any, several at once, until ob_unregister_file is called. */
int ob_file_is_offloaded(const ob_file *file);

/* Gives a registered file back, when no call that names it is under way or will begin.
 * What was sent from it is still delivered. NULL is nothing.
 * Threads: any, once no call of another names the file. */
void ob_unregister_file(ob_file *file);

/* --- sending --------------------------------------------------------------------------------- */

/* Sends of any kind return how many bytes were taken, which may be less than asked. With OB_ASYNC
 * what was taken comes back as one OB_SENT with `cookie`, when the peer has acknowledged it, or with OB_LEFT
 * when it has left; without, `cookie` is ignored. No send waits, and none raises SIGPIPE.
 * On the kernel, where ob_wait has told of what has come on several connections at once, sends of up to 4 KB leave
 * together by io_uring (OB_BY_IO_URING): when the program has answered on all of those connections, looks for what has
 * happened next (ob_wait, ob_poll), arms (ob_arm), frees the queue, or does something with that connection that is to come
 * behind them (ob_shutdown, ob_close, ob_get_info, a larger send, an option), and with the next send what is older than 50
 * microseconds. They leave, too, when the program ends by exit(3) or a return from main, but not by _exit(2), exec or a
 * signal. So a program that has much to do before it looks again, or will end like that, calls ob_poll, or takes
 * OB_BY_EPOLL. What such a send meets, the next one of that connection is told, as errors of earlier sends are.
 * -EAGAIN: there is no room; OB_ROOM tells when there is. On the engine that is when a third of the send buffer is
 * free; until then sends are refused, and what of earlier ones has come back is told with OB_ROOM, or 50 ms later
 * at the latest. -EBUSY: a room of the connection is lent.
 * -EINVAL: there is no such flag, or OB_LEFT stands without OB_ASYNC.
 * -ENOTCONN: it is still being opened. -EPIPE: this end is closed, or the connection over. Otherwise what
 * ended the connection, once, so that the errors of earlier sends are told. */

/* Sends by copying, from one place or from several: that is one send, too.
 * Threads: any, one at a time in a queue (-EBUSY). */
ssize_t ob_send(ob_queue *queue, ob_handle handle, const void *data, size_t len, unsigned flags,
                uint64_t cookie);
ssize_t ob_sendv(ob_queue *queue, ob_handle handle, const struct iovec *parts, int count,
                 unsigned flags, uint64_t cookie);

/* Sends from registered memory, from one place or from several in one send. With OB_ASYNC nothing is copied,
 * and what is named must not change until the peer has acknowledged it, which is when it comes back (with
 * OB_LEFT it comes back before: then ob_tell_when_free tells when nothing names it any more). Without OB_ASYNC the
 * call is synchronous: it copies, and what is named may change as soon as it returns. A send that is synchronous and
 * copies nothing would have to wait for the peer, and no send waits. It is two steps: a send with OB_ASYNC, and
 * ob_wait until its OB_SENT has come, while the program goes on with what else ob_wait tells it of.
 * -EINVAL: it is not all inside the memory. -ESTALE: with OB_ASYNC, the memory is of an engine that is
 * gone.
 * Threads: any, one at a time in a queue (-EBUSY). */
ssize_t ob_send_registered(ob_queue *queue, ob_handle handle, const ob_memory *memory,
                           size_t offset, size_t len, unsigned flags, uint64_t cookie);
ssize_t ob_sendv_registered(ob_queue *queue, ob_handle handle, const ob_piece *pieces, int count,
                            unsigned flags, uint64_t cookie);

/* Sends from a registered file, from `offset` on. 0: the end of the file. On the engine none of it passes
 * through the program: the engine reads it when it leaves, and again if it has to leave again, as the file is
 * then, as with sendfile(2). So what is named should not change until it has come back; a file that has
 * become shorter by then ends the connection (-ECONNABORTED).
 * Threads: any, one at a time in a queue (-EBUSY). */
ssize_t ob_send_registered_file(ob_queue *queue, ob_handle handle, const ob_file *file,
                                uint64_t offset, size_t len, unsigned flags, uint64_t cookie);

/* Sends from a file, from `offset` on. 0: the end of the file. -EBADF: it is not open for reading. Otherwise also
 * errors of read(2).
 * Threads: any, one at a time in a queue (-EBUSY). */
ssize_t ob_send_file(ob_queue *queue, ob_handle handle, int fd, uint64_t offset, size_t len,
                     unsigned flags, uint64_t cookie);

/* Lends up to `want` bytes (at most 64 KiB) to be filled in place. Until it is committed or given back
 * nothing else can be sent on the connection, and no second room is lent. -EBUSY: a room of it is lent already.
 * Otherwise errors as for ob_send.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_room(ob_queue *queue, ob_handle handle, size_t want, ob_span *out);

/* Sends the first `len` bytes of a room, all of them. Errors as for ob_send, and -EAGAIN: the room stays
 * lent, and is to be committed later; any other result ends it. -EINVAL: there is no such room in this queue, or it
 * is shorter.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_commit(ob_queue *queue, uint64_t room, size_t len, unsigned flags, uint64_t cookie);

/* Gives a room back without sending. -EINVAL: there is no such room in this queue.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_abandon(ob_queue *queue, uint64_t room);

/* --- receiving ------------------------------------------------------------------------------- */

/* Receives by copying into `data`. 0: the end of the stream. -EAGAIN: there is nothing yet; on the
 * kernel also, once, after a receive that was given less than it asked for, until an event tells of more. -EBUSY: a
 * view is not released, or a posted buffer waits for bytes. Otherwise what ended the connection, as often as
 * it is asked.
 * Threads: any, one at a time in a queue (-EBUSY). */
ssize_t ob_recv(ob_queue *queue, ob_handle handle, void *data, size_t len, unsigned flags);

/* Shows the next stretch of what has come, at most `limit` bytes: 1, or 0 at the end of the stream.
 * The peer cannot send what is not released. On the kernel that is so because no more is lent than the receive
 * buffer has: beyond that it is -EAGAIN, and OB_RECEIVE tells when some was released. -EINVAL: `limit` is 0.
 * Otherwise errors as for ob_recv.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_view(ob_queue *queue, ob_handle handle, size_t limit, ob_span *out);

/* Gives a view back; views come back in any order. -EINVAL: there is no such view in this queue.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_release(ob_queue *queue, uint64_t view);

/* Posts `len` bytes of registered memory, from `offset` on, to receive into: there comes what follows all
 * that was received or posted for before. OB_PLACED tells what has come, OB_FILLED when the buffer is the
 * program's again. The engine places there what comes as it comes, and nothing is copied at the host but
 * what had come before it knew of the buffer; on the kernel the library reads it from the socket.
 * While a buffer waits for bytes nothing is received otherwise. A closed connection's buffers do not come
 * back by OB_FILLED; ob_tell_when_free tells when their memory is free. To use it before, end the connection by
 * ob_shutdown, and close it when OB_FILLED has come. To a connection that is over what is left comes, and OB_FILLED.
 * SHUT_RD alone gives back what the library fills; what the engine fills it may still write to, so that this comes
 * back when the peer has ended, too.
 * -EINVAL: it is not all inside the memory, or has no bytes. -EBUSY: a view is not released. -ENOBUFS: the connection
 * has 64, or 64 of each kind, those that the engine fills and those that the library does. -ENOTCONN: it is still being
 * opened.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_post(ob_queue *queue, ob_handle handle, const ob_memory *memory, size_t offset, size_t len,
            uint64_t cookie);

/* --- completion ------------------------------------------------------------------------------ */

/* Takes what has happened: at most `most` events; the count is returned. ob_poll never waits.
 * ob_wait waits up to `milliseconds` (negative: without end) until there is one. -EINVAL: `most` is not above 0.
 * -EINTR: a signal came.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_poll(ob_queue *queue, ob_event *events, int most);
int ob_wait(ob_queue *queue, ob_event *events, int most, int milliseconds);

/* Ends a wait of this queue, or the next one, with OB_WAKE.
 * Threads: any, at any time until ob_queue_free is called, also while another is in ob_wait. */
int ob_wake(const ob_queue *queue);

/* Watches a descriptor of the program's own for EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP and EPOLLET.
 * The queue keeps a duplicate; ob_close ends it. -EINVAL: another bit is set. -EBADF: the descriptor is not open.
 * -EPERM: it cannot be waited for, as a file. -EMFILE, -ENFILE: there are no more descriptors.
 * Threads: any, one at a time in a queue (-EBUSY). */
int ob_watch(ob_queue *queue, int fd, uint32_t events, uint64_t cookie, ob_handle *out);

/* Lets a loop of the program's own wait: for the descriptor (EPOLLIN), between ob_arm and ob_disarm.
 * ob_arm returns how many milliseconds the loop may wait at most (-1: as long as it likes, 0:
 * something has happened already) or a negative error below -1. -ENOMEM, -ENOSPC: the kernel
 * cannot change what it waits for. The order is: ob_arm, wait if it says
 * so, ob_disarm, ob_poll. Nothing that happens in between is lost.
 * Threads: any; ob_queue_fd at any time until ob_queue_free is called, the others one at a time in a queue
 * (-EBUSY). */
int ob_queue_fd(const ob_queue *queue);
int ob_arm(ob_queue *queue);
int ob_disarm(ob_queue *queue);

/* The library's version: major * 1000 + minor.
 * Threads: any, at any time. */
unsigned ob_version(void);

#ifdef __cplusplus
}
#endif

#endif
