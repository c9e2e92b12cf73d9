/*
 * tcps.h: the calls of the paper that this grew from, over outboard.h, so that its programs compile.
 *
 * M. Rangarajan, A. Bohra, K. Banerjee, E. V. Carrera, R. Bianchini, L. Iftode, W. Zwaenepoel: TCP
 * Servers: Offloading TCP Processing in Internet Servers (2002). New programs use outboard.h.
 *
 * Calls wait, return -1 and set errno, as those of sockets do; they may be made from any thread. What
 * the paper leaves open, and what is other than with sockets:
 *
 * - tcps_bind notes the address; that it is taken say tcps_listen and tcps_connect.
 * - Registered memory is outboard's. A program that registers memory of its own gets a twin of it, into
 *   which a send copies; with tcps_registered() it fills the twin itself, and nothing is copied.
 * - A synchronous send from registered memory returns when the peer has acknowledged it.
 * - The child of a fork begins anew: of its parent's sockets it has none (their numbers are closed there), and
 *   registered memory and sends of its parent's it must not name. It makes sockets of its own.
 *
 * The functions are weak, so that several files of a program may include this; link with -lpthread.
 */
#ifndef TCPS_H
#define TCPS_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "outboard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TCPS_WEAK __attribute__((weak))
/* For tcps_io_wait: without end. */
#define TCPS_FOREVER ULONG_MAX

/* Registered memory. */
typedef struct tcps_memory {
    char *own; /* the program's */
    size_t len;
    ob_memory *twin;
} *NS_MEM_HANDLE;

/* An asynchronous send. It stays where it is until it is done. */
typedef struct tcps_io_result {
    int pending; /* parts that have not come back */
    int bytes;   /* that were acknowledged */
    int error;   /* a positive error number: the connection ended before, or was closed here; or 0 */
    /* Among those of its socket that are not done. */
    struct tcps_io_result *next, **before;
} NS_IO_RESULT;

/* A socket, by its number, which is that of a descriptor that is good for nothing else. */
struct tcps_socket_ {
    ob_handle handle; /* 0: neither listens nor is connected */
    struct sockaddr_storage bound;
    socklen_t bound_len;
    int used, open, error;
    NS_IO_RESULT *sends; /* that are not done */
};

struct tcps_state_ {
    pthread_mutex_t lock;
    pthread_cond_t news;
    ob_context *context;
    ob_queue *queue;
    struct tcps_socket_ *sockets;
    int size;  /* of sockets */
    int led;   /* a thread waits for the queue; the others wait for it */
    int armed; /* and the queue is armed for it */
    int forks; /* it is seen to that the child of a fork begins anew */
};

TCPS_WEAK struct tcps_state_ tcps_ = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL,
                                       NULL, NULL, 0, 0, 0, 0 };

/* --- inside ---------------------------------------------------------------------------------- */

/* Around a fork: nothing is half done in what the child gets. */
TCPS_WEAK void tcps_before_fork_(void)
{
    pthread_mutex_lock(&tcps_.lock);
}

TCPS_WEAK void tcps_after_fork_(void)
{
    pthread_mutex_unlock(&tcps_.lock);
}

/* The child has none of its parent's threads, and must not use its context and its queue. What they have at the
   kernel would be open as long as the child is, so it frees them: no call is under way in them. */
TCPS_WEAK void tcps_in_child_(void)
{
    int number;
    for (number = 0; number < tcps_.size; number++)
        if (tcps_.sockets[number].used)
            close(number);
    free(tcps_.sockets);
    ob_queue_free(tcps_.queue);
    ob_detach(tcps_.context);
    tcps_.context = NULL;
    tcps_.queue = NULL;
    tcps_.sockets = NULL;
    tcps_.size = tcps_.led = tcps_.armed = 0;
    pthread_mutex_init(&tcps_.lock, NULL);
    pthread_cond_init(&tcps_.news, NULL);
}

/* Before anything is done with the queue. */
TCPS_WEAK void tcps_enter_(void)
{
    pthread_mutex_lock(&tcps_.lock);
    if (tcps_.armed) {
        /* What is done now the descriptor need not tell: the waiting thread looks again. */
        tcps_.armed = 0;
        ob_disarm(tcps_.queue);
        ob_wake(tcps_.queue);
    }
}

/* Afterwards. `result` is a negative error number or a result. */
TCPS_WEAK int tcps_leave_(ssize_t result)
{
    pthread_mutex_unlock(&tcps_.lock);
    if (result >= 0)
        return (int)result;
    errno = (int)-result;
    return -1;
}

/* A send is done: its memory may go. */
TCPS_WEAK void tcps_done_(NS_IO_RESULT *sent)
{
    if (sent->before) {
        *sent->before = sent->next;
        if (sent->next)
            sent->next->before = sent->before;
    }
    sent->next = NULL;
    sent->before = NULL;
}

/* Takes what has happened. */
TCPS_WEAK void tcps_take_(void)
{
    ob_event events[64];
    int at, taken;
    while ((taken = ob_poll(tcps_.queue, events, 64)) > 0)
        for (at = 0; at < taken; at++) {
            if (events[at].kind == OB_OPEN && events[at].cookie < (uint64_t)tcps_.size
                && tcps_.sockets[events[at].cookie].handle == events[at].handle) {
                tcps_.sockets[events[at].cookie].open = 1;
                tcps_.sockets[events[at].cookie].error = events[at].error;
            } else if (events[at].kind == OB_SENT) {
                NS_IO_RESULT *sent = (NS_IO_RESULT *)(uintptr_t)events[at].cookie;
                sent->pending--;
                if (events[at].error)
                    sent->error = events[at].error;
                else
                    sent->bytes += (int)events[at].bytes;
                if (!sent->pending)
                    tcps_done_(sent);
            }
        }
}

/* Waits until something may have happened, at most so long (negative: without end). */
TCPS_WEAK void tcps_wait_(long milliseconds)
{
    struct pollfd queue;
    int limit;
    if (tcps_.led) {
        struct timeval now;
        struct timespec until;
        if (milliseconds < 0) {
            pthread_cond_wait(&tcps_.news, &tcps_.lock);
        } else {
            gettimeofday(&now, NULL);
            until.tv_sec = now.tv_sec + milliseconds / 1000;
            until.tv_nsec = now.tv_usec * 1000 + milliseconds % 1000 * 1000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&tcps_.news, &tcps_.lock, &until);
        }
    } else {
        tcps_.led = tcps_.armed = 1;
        limit = ob_arm(tcps_.queue);
        if (limit < 0 || (milliseconds >= 0 && milliseconds < limit))
            limit = milliseconds > INT_MAX ? INT_MAX : (int)milliseconds;
        queue.fd = ob_queue_fd(tcps_.queue);
        queue.events = POLLIN;
        pthread_mutex_unlock(&tcps_.lock);
        poll(&queue, 1, limit);
        pthread_mutex_lock(&tcps_.lock);
        if (tcps_.armed)
            ob_disarm(tcps_.queue);
        tcps_.led = tcps_.armed = 0;
        tcps_take_();
        pthread_cond_broadcast(&tcps_.news);
    }
    if (tcps_.armed) {
        tcps_.armed = 0;
        ob_disarm(tcps_.queue);
        ob_wake(tcps_.queue);
    }
}

/* A socket; NULL: the number is none of ours. */
TCPS_WEAK struct tcps_socket_ *tcps_find_(int number)
{
    return number >= 0 && number < tcps_.size && tcps_.sockets[number].used ? &tcps_.sockets[number]
                                                                            : NULL;
}

/* A connection's handle; 0 is refused by every call. Who waits keeps it: the number may be another's then. */
TCPS_WEAK ob_handle tcps_handle_(int number)
{
    struct tcps_socket_ *found = tcps_find_(number);
    return found ? found->handle : 0;
}

/* A further socket, or a negative error number. */
TCPS_WEAK int tcps_new_(int domain, int type, int protocol)
{
    int number = socket(domain, type, protocol);
    if (number < 0)
        return -errno;
    if (number >= tcps_.size) {
        int size = number + 64, at;
        void *grown = realloc(tcps_.sockets, (size_t)size * sizeof *tcps_.sockets);
        if (!grown) {
            close(number);
            return -ENOMEM;
        }
        tcps_.sockets = (struct tcps_socket_ *)grown;
        for (at = 0; at < tcps_.size; at++)
            if (tcps_.sockets[at].sends)
                tcps_.sockets[at].sends->before = &tcps_.sockets[at].sends;
        memset(tcps_.sockets + tcps_.size, 0, (size_t)(size - tcps_.size) * sizeof *tcps_.sockets);
        tcps_.size = size;
    }
    memset(tcps_.sockets + number, 0, sizeof *tcps_.sockets);
    tcps_.sockets[number].used = 1;
    return number;
}

/* Whether registered memory, the program's or its twin, has these bytes, and where. */
TCPS_WEAK int tcps_has_(NS_MEM_HANDLE memory, const void *bytes, int len, size_t *offset)
{
    uintptr_t at = (uintptr_t)bytes, twin, own;
    if (!memory || !bytes || len < 0)
        return 0;
    twin = (uintptr_t)ob_memory_data(memory->twin);
    own = (uintptr_t)memory->own;
    *offset = own && at >= own && at - own < memory->len ? at - own : at - twin;
    return *offset <= memory->len && (size_t)len <= memory->len - *offset;
}

/* A send begins to be not done. */
TCPS_WEAK void tcps_list_(int number, NS_IO_RESULT *sent)
{
    struct tcps_socket_ *from = tcps_find_(number);
    sent->next = from->sends;
    sent->before = &from->sends;
    if (sent->next)
        sent->next->before = &sent->next;
    from->sends = sent;
}

/* Sends all of it from registered memory; each part that is taken is pending in `result`. */
TCPS_WEAK ssize_t tcps_post_(int number, const char *bytes, int len, int flags,
                             NS_MEM_HANDLE memory, NS_IO_RESULT *result)
{
    size_t offset, sent = 0;
    ob_handle handle = tcps_handle_(number);
    if (!result || flags & ~MSG_MORE || !tcps_has_(memory, bytes, len, &offset))
        return -EINVAL;
    if (bytes != (char *)ob_memory_data(memory->twin) + offset)
        memcpy((char *)ob_memory_data(memory->twin) + offset, bytes, (size_t)len);
    memset(result, 0, sizeof *result);
    while (sent < (size_t)len) {
        ssize_t more = ob_send_registered(tcps_.queue, handle, memory->twin,
                                          offset + sent, (size_t)len - sent,
                                          OB_ASYNC | (flags & MSG_MORE ? OB_MORE : 0),
                                          (uintptr_t)result);
        if (more > 0) {
            if (!result->before)
                tcps_list_(number, result);
            result->pending++;
            sent += (size_t)more;
        } else if (more == -EAGAIN) {
            tcps_wait_(-1);
        } else if (sent == 0) {
            return more;
        } else {
            break;
        }
    }
    return (ssize_t)sent;
}

/* --- as of sockets --------------------------------------------------------------------------- */

/* A socket: AF_INET or AF_INET6, SOCK_STREAM.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_socket(int domain, int type, int protocol)
{
    int result = 0;
    tcps_enter_();
    if ((domain != AF_INET && domain != AF_INET6) || type != SOCK_STREAM)
        result = -EPROTONOSUPPORT;
    if (!result && !tcps_.forks) {
        result = -pthread_atfork(tcps_before_fork_, tcps_after_fork_, tcps_in_child_);
        tcps_.forks = !result;
    }
    if (!result && !tcps_.context)
        result = ob_attach(&tcps_.context, NULL, NULL, OB_ANY);
    if (!result && !tcps_.queue)
        result = ob_queue_new(tcps_.context, &tcps_.queue);
    return tcps_leave_(result < 0 ? result : tcps_new_(domain, type, protocol));
}

/* Notes the address for tcps_listen or tcps_connect.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_bind(int sockfd, struct sockaddr *paddr, int addrLen)
{
    struct tcps_socket_ *found;
    int result = -EBADF;
    tcps_enter_();
    if ((found = tcps_find_(sockfd)) != NULL)
        result = -EINVAL;
    if (found && !found->handle && paddr && addrLen > 0
        && (size_t)addrLen <= sizeof found->bound) {
        memcpy(&found->bound, paddr, (size_t)addrLen);
        found->bound_len = (socklen_t)addrLen;
        result = 0;
    }
    return tcps_leave_(result);
}

/* Listens on the address that was bound.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_listen(int sockfd, int backlog)
{
    struct tcps_socket_ *found;
    int result = -EBADF;
    tcps_enter_();
    if ((found = tcps_find_(sockfd)) != NULL)
        result = found->handle || !found->bound_len
                     ? -EINVAL
                     : ob_listen(tcps_.queue, (struct sockaddr *)&found->bound, found->bound_len,
                                 backlog > 0 ? (unsigned)backlog : 1, (uint64_t)sockfd,
                                 &found->handle);
    return tcps_leave_(result);
}

/* Waits for a connection; its address goes to paddr unless that is NULL.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_accept(int sockfd, void *paddr, int *paddrLen)
{
    socklen_t len = paddr && paddrLen ? (socklen_t)*paddrLen : 0;
    ob_handle listener, accepted = 0;
    int result, number = -1;
    tcps_enter_();
    listener = tcps_handle_(sockfd);
    /* There may be no queue, as in the child of a fork. */
    result = -EBADF;
    while (listener && (result = ob_accept(tcps_.queue, listener, 0, &accepted)) == -EAGAIN)
        tcps_wait_(-1);
    if (!result && len)
        result = ob_peer(tcps_.queue, accepted, (struct sockaddr *)paddr, &len);
    if (!result)
        result = number = tcps_new_(AF_INET, SOCK_STREAM, 0);
    if (result < 0) {
        ob_close(tcps_.queue, accepted);
        return tcps_leave_(result);
    }
    tcps_.sockets[number].handle = accepted;
    if (paddr && paddrLen)
        *paddrLen = (int)len;
    return tcps_leave_(number);
}

/* Opens a connection, and waits until it is open. One that failed may be tried again.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_connect(int sockfd, const struct sockaddr *paddr, int addrLen)
{
    struct tcps_socket_ *found;
    ob_handle handle = 0;
    int result = -EBADF;
    tcps_enter_();
    if ((found = tcps_find_(sockfd)) != NULL)
        result = found->handle ? -EISCONN
                 : found->bound_len
                     ? ob_connect_from(tcps_.queue, (struct sockaddr *)&found->bound,
                                       found->bound_len, paddr, (socklen_t)addrLen, NULL, 0,
                                       (uint64_t)sockfd, &handle)
                     : ob_connect(tcps_.queue, paddr, (socklen_t)addrLen, NULL, 0,
                                  (uint64_t)sockfd, &handle);
    if (!result)
        found->handle = handle;
    while (!result && (found = tcps_find_(sockfd)) != NULL && found->handle == handle && !found->open)
        tcps_wait_(-1);
    if (!result)
        result = found && found->handle == handle ? -found->error : -EBADF;
    if (result && found && handle && found->handle == handle) {
        /* It may be tried again. */
        ob_close(tcps_.queue, handle);
        found->handle = 0;
        found->open = found->error = 0;
    }
    return tcps_leave_(result);
}

/* Sends all of it, by copying. Flags: MSG_MORE, MSG_DONTWAIT, MSG_NOSIGNAL.
 * Threads: any, several at once; what two send on one socket may mix. */
TCPS_WEAK int tcps_send(int sockfd, const void *msg, int len, int flags)
{
    ssize_t more = 0;
    ob_handle handle;
    int sent = 0;
    if (len < 0 || flags & ~(MSG_MORE | MSG_DONTWAIT | MSG_NOSIGNAL)) {
        errno = EINVAL;
        return -1;
    }
    tcps_enter_();
    handle = tcps_handle_(sockfd);
    do {
        more = !handle ? -EBADF
                       : ob_send(tcps_.queue, handle, (const char *)msg + sent, (size_t)(len - sent),
                                 flags & MSG_MORE ? OB_MORE : 0, 0);
        if (more > 0)
            sent += (int)more;
        else if (more == -EAGAIN && !(flags & MSG_DONTWAIT))
            tcps_wait_(-1);
        else
            break;
    } while (sent < len);
    return tcps_leave_(sent ? sent : more);
}

/* Receives what there is, at least one byte; 0 is the end. Flags: MSG_PEEK, MSG_DONTWAIT.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_recv(int sockfd, void *buf, int len, unsigned int flags)
{
    ob_handle handle;
    ssize_t got = -EBADF;
    if (len < 0 || flags & ~(unsigned)(MSG_PEEK | MSG_DONTWAIT)) {
        errno = EINVAL;
        return -1;
    }
    tcps_enter_();
    handle = tcps_handle_(sockfd);
    while (handle
           && (got = ob_recv(tcps_.queue, handle, buf, (size_t)len, flags & MSG_PEEK ? OB_PEEK : 0))
                  == -EAGAIN
           && !(flags & MSG_DONTWAIT))
        tcps_wait_(-1);
    return tcps_leave_(got);
}

/* Closes a socket. Asynchronous sends that are not done are done by that, with ECONNABORTED.
 * Threads: any, also while another waits on the socket, whose call ends then. */
TCPS_WEAK int tcps_close(int sockfd)
{
    struct tcps_socket_ *found;
    NS_IO_RESULT *sent;
    tcps_enter_();
    if (!(found = tcps_find_(sockfd)))
        return tcps_leave_(-EBADF);
    if (found->handle)
        ob_close(tcps_.queue, found->handle);
    while ((sent = found->sends) != NULL) {
        sent->pending = 0;
        sent->error = ECONNABORTED;
        tcps_done_(sent);
    }
    memset(found, 0, sizeof *found);
    close(sockfd);
    pthread_cond_broadcast(&tcps_.news);
    return tcps_leave_(0);
}

/* --- registered memory ----------------------------------------------------------------------- */

/* Registers memory of the program's, or (NULL) makes some. After the first socket.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_register_memory(void *pmemory, int length, NS_MEM_HANDLE *pmemoryHandle)
{
    NS_MEM_HANDLE made = (NS_MEM_HANDLE)calloc(1, sizeof *made);
    int result = !made ? -ENOMEM : !pmemoryHandle || length <= 0 ? -EINVAL : 0;
    tcps_enter_();
    if (!result && !(result = ob_register(tcps_.context, (size_t)length, &made->twin))) {
        made->own = (char *)pmemory;
        made->len = (size_t)length;
        *pmemoryHandle = made;
        made = NULL;
    }
    free(made);
    return tcps_leave_(result);
}

/* The registered memory itself: what is sent from there is never copied at the host.
 * Threads: any, several at once, until tcps_deregister_memory is called. */
TCPS_WEAK void *tcps_registered(NS_MEM_HANDLE memoryHandle)
{
    return memoryHandle ? ob_memory_data(memoryHandle->twin) : NULL;
}

/* Gives it back. EBUSY: a send from it is not done.
 * Threads: any, once no call of another names the memory. */
TCPS_WEAK int tcps_deregister_memory(void *pmemory, NS_MEM_HANDLE memoryHandle)
{
    int result;
    tcps_enter_();
    result = memoryHandle && memoryHandle->own == pmemory ? ob_unregister(memoryHandle->twin)
                                                          : -EINVAL;
    if (!result)
        free(memoryHandle);
    return tcps_leave_(result);
}

/* Begins to send all of it; returns how much, which is less only if the connection ended.
 * Threads: any, several at once; what two send on one socket may mix. */
TCPS_WEAK int tcps_send_async_registered(int sockfd, const void *msg, int len, int flags,
                                         NS_MEM_HANDLE memHandle, NS_IO_RESULT *pres)
{
    tcps_enter_();
    return tcps_leave_(tcps_post_(sockfd, (const char *)msg, len, flags, memHandle, pres));
}

/* 1: the send is done, by success or error; 0: it is not.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_io_done(NS_IO_RESULT *pres)
{
    tcps_enter_();
    if (tcps_.queue && !tcps_.led)
        tcps_take_();
    return tcps_leave_(pres ? pres->pending == 0 : -EINVAL);
}

/* Waits for so many milliseconds, or not at all, until the send is done: 0, or -1 with ETIMEDOUT or its error.
 * Threads: any, several at once. */
TCPS_WEAK int tcps_io_wait(NS_IO_RESULT *pres, unsigned long timeOut)
{
    struct timeval start, now;
    long left = timeOut > LONG_MAX ? -1 : (long)timeOut;
    if (!pres) {
        errno = EINVAL;
        return -1;
    }
    gettimeofday(&start, NULL);
    tcps_enter_();
    /* Also without any time: who asks again and again need not wait in between. */
    if (tcps_.queue && !tcps_.led)
        tcps_take_();
    while (pres->pending && left) {
        tcps_wait_(left);
        if (left > 0) {
            gettimeofday(&now, NULL);
            left = (long)timeOut - (now.tv_sec - start.tv_sec) * 1000
                   - (now.tv_usec - start.tv_usec) / 1000;
            left = left < 0 ? 0 : left;
        }
    }
    return tcps_leave_(pres->pending ? -ETIMEDOUT : -pres->error);
}

/* As tcps_send, from registered memory, which is the program's again when it returns.
 * Threads: any, several at once; what two send on one socket may mix. */
TCPS_WEAK int tcps_send_registered(int sockfd, const void *msg, int len, int flags,
                                   NS_MEM_HANDLE memHandle)
{
    NS_IO_RESULT result;
    ssize_t sent;
    tcps_enter_();
    sent = tcps_post_(sockfd, (const char *)msg, len, flags, memHandle, &result);
    while (sent > 0 && result.pending)
        tcps_wait_(-1);
    if (sent > 0 && result.error)
        sent = result.bytes ? result.bytes : -result.error;
    return tcps_leave_(sent);
}

/* As tcps_recv, into registered memory: what has come is copied there. It is not ob_post that receives: a buffer that
 * is posted stays so until it is full, and this returns with what there is.
 * Threads: any, several at once, until tcps_deregister_memory is called. */
TCPS_WEAK int tcps_recv_registered(int sockfd, void *buf, int len, unsigned int flags,
                                   NS_MEM_HANDLE memHandle)
{
    size_t offset;
    if (!tcps_has_(memHandle, buf, len, &offset)) {
        errno = EINVAL;
        return -1;
    }
    return tcps_recv(sockfd, buf, len, flags);
}

#ifdef __cplusplus
}
#endif

#endif
