/*
 * A program that ends without another look at its queue has sent all that it sent, once, however sockets of the kernel's
 * are served. The program is a child of this one, which listens to it by plain sockets.
 */
#define _GNU_SOURCE
#include "expect.h"
#include "outboard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 60000
#define CONNECTIONS 3

enum how { RETURNS, EXITS, FORKS, HOWS };

/* It is told of all its connections, and answers on two. */
static void answer(const struct sockaddr_in *to, int by)
{
    ob_context *context;
    ob_queue *queue;
    ob_handle handles[CONNECTIONS];
    ob_event events[64];
    ob_info info;
    int at, count, told = 0;
    char number, byte;
    EXPECT(0, ob_attach(&context, NULL, "exits", OB_KERNEL | by));
    EXPECT(0, ob_queue_new(context, &queue));
    for (at = 0; at < CONNECTIONS; at++) {
        EXPECT(0, ob_connect(queue, (const struct sockaddr *)to, sizeof *to, NULL, 0, 0, &handles[at]));
        do
            EXPECT(1, ob_wait(queue, events, 1, HANG_MS));
        while (events[0].kind != OB_OPEN);
        EXPECT(0, events[0].error);
        number = (char)at;
        EXPECT(1, ob_send(queue, handles[at], &number, 1, 0, 0));
    }
    for (at = 0; at < CONNECTIONS; at++)
        do
            EXPECT(0, ob_get_info(queue, handles[at], &info));
        while (!info.unread);
    count = ob_wait(queue, events, 64, HANG_MS);
    for (at = 0; at < count; at++)
        told += events[at].kind == OB_RECEIVE;
    EXPECT(CONNECTIONS, told);
    for (at = 0; at < CONNECTIONS; at++)
        EXPECT(1, ob_recv(queue, handles[at], &byte, 1, 0));
    EXPECT(6, ob_send(queue, handles[0], "staged", 6, 0, 0));
    EXPECT(6, ob_send(queue, handles[1], "staged", 6, 0, 0));
}

/* All that a connection is told, up to its end. */
static void expect_all(int fd, const char *word)
{
    char bytes[64];
    size_t len = strlen(word);
    EXPECT(len, recv(fd, bytes, sizeof bytes, MSG_WAITALL));
    EXPECT(0, memcmp(bytes, word, len));
    EXPECT(0, close(fd));
}

/* Whether this is the program, which then returns. */
static int is_program(enum how how, int by)
{
    struct sockaddr_in here;
    socklen_t len = sizeof here;
    int at, fd, accepted[CONNECTIONS], status;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t child, other;
    char number;
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(0, bind(listener, (struct sockaddr *)&here, len));
    EXPECT(0, listen(listener, CONNECTIONS));
    EXPECT(0, getsockname(listener, (struct sockaddr *)&here, &len));
    child = fork();
    if (child == 0) {
        EXPECT(0, close(listener));
        answer(&here, by);
        if (how == EXITS)
            exit(0);
        if (how == FORKS) {
            other = fork();
            if (other == 0)
                exit(0);
            EXPECT(other, waitpid(other, &status, 0));
            EXPECT(0, status);
        }
        return 1;
    }
    for (at = 0; at < CONNECTIONS; at++) {
        fd = accept(listener, NULL, NULL);
        EXPECT(1, recv(fd, &number, 1, 0));
        accepted[(int)number] = fd;
    }
    for (at = 0; at < CONNECTIONS; at++)
        EXPECT(1, send(accepted[at], "?", 1, 0));
    for (at = 0; at < CONNECTIONS; at++)
        expect_all(accepted[at], at < 2 ? "staged" : "");
    EXPECT(child, waitpid(child, &status, 0));
    EXPECT(0, status);
    EXPECT(0, close(listener));
    return 0;
}

int main(void)
{
    ob_context *context;
    enum how how;
    int has_io_uring = !ob_attach(&context, NULL, NULL, OB_KERNEL | OB_BY_IO_URING);
    if (has_io_uring)
        ob_detach(context);
    for (how = RETURNS; how < HOWS; how++)
        if (is_program(how, OB_BY_EPOLL) || (has_io_uring && is_program(how, OB_BY_IO_URING)))
            return 0;
    puts("all as outboard.h says");
    return 0;
}
